"""Constants that the modules of NNI's command line use."""

from nnimgr.home import Home

__all__ = [
    "DEFAULT_REST_PORT",
    "ERROR_INFO",
    "EXPERIMENT_DETAIL_FORMAT",
    "NNI_HOME_DIR",
    "NORMAL_INFO",
    "REST_TIME_OUT",
    "WARNING_INFO",
]

NNI_HOME_DIR = str(Home.find().path)

ERROR_INFO = "ERROR: "
NORMAL_INFO = "INFO: "
WARNING_INFO = "WARNING: "

DEFAULT_REST_PORT = 8080
REST_TIME_OUT = 20

EXPERIMENT_DETAIL_FORMAT = (
    "Id: %s    Name: %s    Status: %s    Port: %s    Platform: %s    StartTime: %s    EndTime: %s\n"
)
