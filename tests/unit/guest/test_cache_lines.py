"""Which accesses count as lines that come over from another CPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flatboot.guest import functions

#: The plugin beside a QEMU that runs one block with one instruction: its accesses are arguments.
QEMU = r"""
#include "lines.c"

static void (*access_cb)(unsigned int, uint32_t, uint64_t, void *);
static void *access_data;
static void (*translated_cb)(uint64_t, struct qemu_plugin_tb *);
static uint64_t at = 0xffffffff81000000;

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb) { (void)tb; return 1; }
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i)
{ (void)tb; (void)i; return NULL; }
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb) { (void)tb; return at; }
bool qemu_plugin_mem_is_store(uint32_t info) { return info; }
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
    void (*cb)(uint64_t, struct qemu_plugin_tb *)) { (void)id; translated_cb = cb; }
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
    void (*cb)(unsigned int, uint32_t, uint64_t, void *), int flags, int which, void *data)
{ (void)insn; (void)flags; (void)which; access_cb = cb; access_data = data; }

int main(int argc, char **argv)
{
    char *words[] = { argv[1], "entry=0x401000" };

    if (qemu_plugin_install(0, NULL, 2, words))
        return 1;
    translated_cb(0, NULL);
    for (int i = 2; i < argc; i++) {
        unsigned int cpu;
        char way;
        unsigned long long address;

        if (sscanf(argv[i], "%u%c%llx", &cpu, &way, &address) != 3)
            return 1;
        access_cb(cpu, way == 'w', address, access_data);
    }
    at = 0x401000;
    translated_cb(0, NULL);
    return 0;
}
"""
LINE, NEXT, USER = "ffff888000001000", "ffff888000001040", "7fff00001000"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lines")
    source, made = folder / "qemu.c", folder / "qemu"
    source.write_text(QEMU)
    options = ["-Wall", "-Werror", "-I", str(functions.PLUGINS)]
    subprocess.run(["gcc", *options, str(source), "-o", str(made)], check=True)
    return made


@pytest.mark.parametrize(
    ("accesses", "lines"),
    [
        # One CPU has no other.
        (f"0w{LINE} 0r{LINE} 0w{NEXT}", 0),
        (f"0r{LINE} 0w{LINE} 0w{LINE}", 0),
        # Nobody stores.
        (f"0r{LINE} 1r{LINE} 319r{LINE}", 0),
        # A load of what another stored, once until it stores again.
        (f"0w{LINE} 1r{LINE} 1r{LINE}", 1),
        (f"0w{LINE} 1r{LINE} 0w{LINE} 1r{LINE}", 3),
        # A store to what others have.
        (f"0r{LINE} 1w{LINE}", 1),
        (f"0r{LINE} 1r{LINE} 1w{LINE} 0r{LINE}", 2),
        (f"0w{LINE} 1w{LINE} 1w{LINE} 0w{LINE}", 2),
        # A load and a store of one instruction bring the line once.
        (f"0w{LINE} 1r{LINE} 1w{LINE}", 1),
        # Another line, and memory of user space.
        (f"0w{LINE} 1r{NEXT}", 0),
        (f"0w{USER} 1r{USER}", 0),
    ],
)
def test_lines_that_come_over(program: Path, tmp_path: Path, accesses: str, lines: int) -> None:
    out = tmp_path / "counts"
    subprocess.run([program, f"out={out}", *accesses.split()], check=True)
    found = [int(line.split()[1]) for line in out.read_text().splitlines()]
    assert sum(found) == lines


def test_many_lines_are_told_apart(program: Path, tmp_path: Path) -> None:
    out = tmp_path / "counts"
    numbers = [f"{0xFFFF888000000000 + 64 * 4096 * i:x}" for i in range(1000)]
    accesses = [f"{cpu}w{number}" for cpu in (0, 1) for number in numbers]
    subprocess.run([program, f"out={out}", *accesses], check=True)
    assert out.read_text() == "401000 0\nffffffff81000000 1000\n"
