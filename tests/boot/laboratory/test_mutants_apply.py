"""Each mutant still is a mistake that can be made in the kernel that there is."""

from __future__ import annotations

import shutil
from pathlib import Path

from flatboot.common import paths
from flatboot.kernel import bases, groups, layer, sources


def test_mutants_apply(tmp_path: Path) -> None:
    source = sources.resolve(bases.default())
    every = groups.chosen(source.base())
    made = layer.of(source.directory(), every, source.base())
    mutants = sorted((paths.repo() / "tests/mutants").glob("*.patch"))
    assert len(mutants) > 30
    refused = []
    for mutant in mutants:
        scratch = tmp_path / mutant.stem
        for name in layer.touched(mutant.read_text()):
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            if name in made.files:
                file = made.files[name]
                assert file is not None
                file.write(scratch / name)
            else:
                shutil.copy(source.directory() / name, scratch / name)
        try:
            layer.apply(mutant, scratch)
        except layer.DoesNotApply as error:
            refused.append(str(error))
    assert refused == []
