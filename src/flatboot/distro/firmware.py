"""What starts a guest: UEFI, also one that takes only what is signed, a BIOS, QEMU itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flatboot.common.errors import FlatbootError


@dataclass(frozen=True)
class Firmware:
    """What starts a guest.

    Attributes:
        file: where this machine has it.
        package: Debian's package with that file.
        qemu_machine: QEMU's -M to go with it.
        loaders: the boot loaders that it starts.
        disks: how it has disks, of `distro_boot.DISK_DEVICES`.
        cmdline: what its machine's kernel has to be told.
        variables: a file with the variables that it keeps, none of them set; None for firmware
            that forgets them.
    """

    file: Path
    package: str
    qemu_machine: str
    loaders: tuple[str, ...]
    disks: tuple[str, ...] = ("virtio", "nvme")
    cmdline: str = ""
    variables: Path | None = None

    def check(self) -> None:
        """Check that this machine has it.

        Raises:
            FlatbootError: it has not.
        """
        for file in (self.file, self.variables):
            if file and not file.is_file():
                raise FlatbootError(f"there is no firmware at {file}: install {self.package}")

    def words(self, variables: Path | None, *, keeps: bool) -> list[str]:
        """Return QEMU's words for it.

        Args:
            variables: its variables, for firmware that has some.
            keeps: whether what the guest changes of these stays.

        Raises:
            FlatbootError: as `check`.
        """
        self.check()
        if variables is None:
            return ["-bios", str(self.file)]
        flash = "if=pflash,format=raw"
        words = ["-global", "driver=cfi.pflash01,property=secure,value=on"]
        words += ["-drive", f"{flash},unit=0,file={self.file},readonly=on"]
        snapshot = "off" if keeps else "on"
        return [*words, "-drive", f"{flash},unit=1,file={variables},snapshot={snapshot}"]


FIRMWARE = {
    "uefi": Firmware(
        Path("/usr/share/ovmf/OVMF.fd"), "ovmf", "q35,smm=off", ("systemd-boot", "uki", "grub")
    ),
    "secure-boot": Firmware(
        Path("/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"),
        "ovmf",
        "q35,smm=on",
        ("uki",),
        variables=Path("/usr/share/OVMF/OVMF_VARS_4M.fd"),
    ),
    "bios": Firmware(Path("/usr/share/seabios/bios-256k.bin"), "seabios", "pc", ("grub",)),
    # Not SeaBIOS, which would write over the end of the initramfs. A microvm has nothing to measure
    # the processor's clock with; an emulated one has 1 GHz.
    "microvm": Firmware(
        Path("/usr/share/qemu/qboot.rom"),
        "qemu-system-data",
        "microvm,acpi=on,rtc=on",
        ("none",),
        ("mmio",),
        "tsc_early_khz=1000000",
    ),
}
