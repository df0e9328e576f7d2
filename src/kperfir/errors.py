"""The errors kperfir raises: one base, one family per part of the flow.

Every message says what was found, where, and what to do. The command line
catches `KperfError` alone and prints one line; anything else is a bug and
keeps its traceback.
"""


class KperfError(Exception):
    """Base of every error meant for the user.

    Args:
        what: what was found, and where.
        cure: what the user can do about it.
    """

    exit_code = 1

    def __init__(self, what: str, cure: str = "") -> None:
        self.what = what
        self.cure = cure
        super().__init__(f"{what} {cure}".rstrip())


class PlanError(KperfError):
    """A plan or an option that makes no sense."""


class ScopeError(KperfError):
    """Scopes in a kernel that do not balance or that cross."""


class IRError(KperfError):
    """IR text that cannot be read, or that does not survive the round trip."""


class LoweringError(KperfError):
    """Records that cannot be lowered for this kernel or target."""


class PassError(KperfError):
    """A user's pass that failed, or left a module that does not verify."""


class BridgeError(KperfError):
    """The installed Triton, or another profiler, keeps kperfir from working."""


class DeviceError(KperfError):
    """The GPU driver refused a call."""


class CaptureError(KperfError):
    """A capture file that is missing, foreign, newer, truncated or empty."""


class ExportError(KperfError):
    """A trace that cannot be written in the format or to the place asked for."""


class ProgramError(KperfError):
    """The user's program asks for something that is not to be had here."""
