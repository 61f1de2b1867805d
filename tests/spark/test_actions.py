"""An action that is interrupted says so, whatever else breaks on the way out."""

import pytest
from py4j.protocol import Py4JNetworkError

from sdf.spark.actions import InterruptiblePipelinedRDD


class Interrupted:
    """In place of an RDD in the JVM: the user interrupts when it is asked for."""

    def rdd(self):
        raise KeyboardInterrupt


def test_an_interrupt_is_told_though_pyspark_fails_to_tidy_up_after_it(sc, monkeypatch):
    """`collect` restores the call site on the connection that the interrupt broke off, which may fail."""

    def broken(self, *_):
        raise Py4JNetworkError("Answer from Java side is empty")

    rdd = sc.parallelize([1], 1).map(lambda x: x)
    rdd.__class__ = InterruptiblePipelinedRDD
    rdd._jrdd_val = Interrupted()
    monkeypatch.setattr("pyspark.traceback_utils.SCCallSiteSync.__exit__", broken)
    with pytest.raises(KeyboardInterrupt):
        rdd.collect()
    assert "sdf-" not in "".join(sc.getJobTags())


def test_an_error_of_pyspark_without_an_interrupt_stays_what_it_is(sc, monkeypatch):
    """Only what was raised while an interrupt was handled gives way to it."""

    def broken(self, *_):
        raise Py4JNetworkError("Answer from Java side is empty")

    rdd = sc.parallelize([1], 1).map(lambda x: x)
    rdd.__class__ = InterruptiblePipelinedRDD
    monkeypatch.setattr("pyspark.traceback_utils.SCCallSiteSync.__exit__", broken)
    with pytest.raises(Py4JNetworkError):
        rdd.collect()
