"""Names that PySpark asks the JVM for. For each, Spark's JVM looks through all of its jars, for a millisecond."""

from functools import cache

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView


@cache  # once
def keep_names():
    """Let the gateways of this process keep what the JVM said. A package stays one; a name may become a class's."""
    for kind in (JVMView, JavaPackage, JavaClass):
        kind.__getattr__ = _keeping(kind.__getattr__)


def _keeping(ask):
    def found(self, name):
        answer = ask(self, name)
        if isinstance(answer, (JavaClass, JavaMember)) or (isinstance(answer, JavaPackage) and name.islower()):
            vars(self)[name] = answer
        return answer

    return found
