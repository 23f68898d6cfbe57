"""On which GPU a run is checked again: another one than the run's, where there is one.

GPUs of one name compare (`evokernel.provenance`), so what only one of them does shows on another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from archives.evaluation import DeviceFingerprint
from evokernel.rechecking import Finding

__all__ = ["CheckedOn", "checked_on", "number_of_another"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedOn:
    """The GPU on which elites were checked again.

    Attributes:
        name: Its model.
        uuid: Its identity.
        run_uuid: Identity of the GPU on which the run began.
        num_elites: Elites that were given a verdict there.
        num_before: Those among them whose number until now came from that very GPU, since a run
            may use several, and an earlier verification another one.
    """

    name: str
    uuid: str
    run_uuid: str
    num_elites: int
    num_before: int

    @property
    def is_another(self) -> bool:
        """Whether it is another one than the run began on."""
        return self.uuid != self.run_uuid

    def __str__(self) -> str:
        here = f"checked on {self.name} {self.uuid}, "
        if not self.is_another:
            return f"{here}the GPU on which the run began"
        known = (
            f"; {self.num_before} of {self.num_elites} were measured there before"
            if self.num_before
            else ""
        )
        return f"{here}another GPU than the run began on, {self.run_uuid}{known}"


def number_of_another(then: DeviceFingerprint) -> int:
    """Return the number of a GPU like the run's, of another one where there is one.

    Args:
        then: The GPU on which the run began.

    Returns:
        Among the GPUs that this process may use, the first of that name that is not the same; else
        the same one; 0 where none has that name or there is none, as whoever opens it will tell.
    """
    from evaluator.referee.cuda.device import gpu_count, gpu_of

    gpus = [gpu_of(number) for number in range(gpu_count())]
    alike = [number for number, gpu in enumerate(gpus) if gpu.name == then.name]
    others = [number for number in alike if gpus[number].uuid != then.uuid]
    return next(iter(others + alike), 0)


def checked_on(then: DeviceFingerprint | None, findings: Sequence[Finding]) -> CheckedOn | None:
    """Tell on which GPU a run was checked, from what its new verdicts say.

    Args:
        then: Where the run began; None: nothing was measured.
        findings: About its elites, checked on one device.

    Returns:
        None where that was no GPU, or there is no new verdict.
    """
    new = [(finding.before, finding.after.device) for finding in findings if finding.after]
    here = next((device for _, device in new if device is not None), None)
    if then is None or here is None or here.kind != "cuda":
        return None
    known = [before.device for before, _ in new if before is not None]
    return CheckedOn(
        name=here.name,
        uuid=here.uuid,
        run_uuid=then.uuid,
        num_elites=len(new),
        num_before=sum(device is not None and device.uuid == here.uuid for device in known),
    )
