"""YARN's own daemons: a ResourceManager, and two NodeManagers that stand for two hosts."""

import json
import time
import urllib.request

from support.daemons import free_port
from support.killing import descendants, end

HOSTS = ("127.0.0.1", "127.0.0.2")
QUEUES = ("default", "urgent")
NODE_MB = 3072  # of containers, beside what else runs on the machine; nothing checks it


class Yarn:
    """A cluster of two nodes, with two queues; each takes back what the other one uses of its half.

    Args:
        hadoop: its HDFS, which has the daemons and their configuration.
    """

    def __init__(self, hadoop):
        self.hadoop = hadoop
        self.conf = hadoop.conf
        self._excluded = hadoop.conf / "excluded"
        self._excluded.write_text("")
        web = free_port()
        self._beans = f"http://127.0.0.1:{web}/jmx?qry=Hadoop:service=ResourceManager,name="
        services = ("", "scheduler.", "resource-tracker.", "admin.")
        preemption = "yarn.resourcemanager.monitor.capacity.preemption"
        hadoop.write(
            "yarn-site",
            {
                **{f"yarn.resourcemanager.{which}address": f"127.0.0.1:{free_port()}" for which in services},
                "yarn.resourcemanager.webapp.address": f"127.0.0.1:{web}",
                "yarn.resourcemanager.nodes.exclude-path": self._excluded,
                "yarn.resourcemanager.scheduler.class": (
                    "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
                ),
                "yarn.resourcemanager.scheduler.monitor.enable": "true",
                f"{preemption}.monitoring_interval": "500",
                f"{preemption}.max_wait_before_kill": "1000",
                f"{preemption}.total_preemption_per_round": "1.0",
                f"{preemption}.natural_termination_factor": "1.0",
                **{f"yarn.nodemanager.{which}.address": "${yarn.nodemanager.hostname}:0" for which in _OF_A_NODE},
                "yarn.nodemanager.address": "${yarn.nodemanager.hostname}:0",
                "yarn.nodemanager.resource.memory-mb": NODE_MB,
                "yarn.nodemanager.resource.cpu-vcores": "8",
                "yarn.scheduler.minimum-allocation-mb": "128",
                "yarn.nodemanager.vmem-check-enabled": "false",
                "yarn.nodemanager.pmem-check-enabled": "false",
                "yarn.nodemanager.env-whitelist": "JAVA_HOME,PATH,LANG",
                "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99",
            },
        )
        capacity = "yarn.scheduler.capacity"
        shares = {"capacity": "50", "maximum-capacity": "100", "user-limit-factor": "4"}
        hadoop.write(
            "capacity-scheduler",
            {
                f"{capacity}.root.queues": ",".join(QUEUES),
                f"{capacity}.maximum-am-resource-percent": "0.8",
                **{f"{capacity}.root.{queue}.{name}": value for queue in QUEUES for name, value in shares.items()},
            },
        )
        self._nodes = {}
        hadoop.start("resourcemanager")
        for host in HOSTS:
            own = hadoop.conf.parent / f"node-{host}"
            places = {"hostname": host, "local-dirs": own / "local", "log-dirs": own / "logs"}
            set_ = [part for name, value in places.items() for part in ("-D", f"yarn.nodemanager.{name}={value}")]
            self._nodes[host] = hadoop.start(f"nodemanager-{host}", *set_)
        self.wait(lambda: self.metric("NumActiveNMs") == len(HOSTS))

    def bean(self, name):
        """Return what the ResourceManager says in one of its beans."""
        with urllib.request.urlopen(f"{self._beans}{name}", timeout=5) as answer:
            return json.load(answer)["beans"][0]

    def metric(self, name):
        """Return a number of the cluster's."""
        return self.bean("ClusterMetrics")[name]

    def preempted(self, queue):
        """Return how many containers another queue has taken back from this one."""
        return self.bean(f"QueueMetrics,q0=root,q1={queue}")["AggregateContainersPreempted"]

    def containers(self, queue):
        """Return how many containers there are in a queue."""
        return self.bean(f"QueueMetrics,q0=root,q1={queue}")["AllocatedContainers"]

    def wait(self, condition):
        """Wait until the ResourceManager is there, and something holds."""
        ends = time.monotonic() + 120
        while True:
            try:
                if condition():
                    return
            except (OSError, IndexError):
                pass  # it is about to start
            if time.monotonic() > ends:
                raise OSError(f"not so: {(self.conf.parent / 'resourcemanager.log').read_text()[-2000:]}")
            time.sleep(0.1)

    def decommission(self, *hosts):
        """Let these nodes finish what they do, a minute long, and go; all others are welcome."""
        self._excluded.write_text("".join(f"{host}\n" for host in hosts))
        assert self.hadoop.run("rmadmin", "-refreshNodes", "-g", "60", "-server").wait(60) == 0

    def stop(self):
        """End all, containers too."""
        end(descendants([node.pid for node in self._nodes.values()]))


_OF_A_NODE = ("localizer", "webapp", "collector-service")
