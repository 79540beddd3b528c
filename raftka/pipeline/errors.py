"""Errors of pipelines."""


class PipelineError(Exception):
    """A pipeline that cannot run or did not end well: one line, which says what to do where that is known."""


class SparkMissingError(PipelineError):
    """PySpark or Java is not there, or not as new as it must be; the line says what to install."""


class ConnectorMissingError(PipelineError):
    """Spark's Kafka connector is not on this machine and no repository gave it."""


class FolderBusyError(PipelineError):
    """Another process does the same to the folder."""
