"""Files of every kind that is read, damaged at random: a result or one line, no crash, no hang, no gigabytes."""

import shutil

import numpy as np
from doomed import MEGABYTES, Doomed
from mutated_files import files, goes_on, interrupted, mutated, with_other_state

FEW = 22  # one of each kind is too long for every day


def test_damaged_inputs_end_in_one_line(tmp_path, tries, score):
    known = files(tmp_path)
    whole = {name: path.read_bytes() for name, (path, _) in known.items()}
    count, survived, names = tries(FEW, 100 * len(known)), 0, [*known]
    with Doomed() as process:
        for seed in range(count):
            name = names[seed % len(names)]
            path, command = known[name]
            path.write_bytes(mutated(whole[name], np.random.default_rng(seed)))
            outcome = process.call([*command, "--quiet"])
            path.write_bytes(whole[name])
            survived += outcome.is_told
            if not outcome.is_told:
                print(seed, name, outcome)
    score("a damaged input", count, survived)


def test_a_damaged_checkpoint_is_refused_or_gone_on_with(tmp_path, tries, score):
    """Bytes of it change, or, with right checksums, values of what the outputs have counted."""
    out = interrupted(tmp_path)
    state = (out / ".resume" / "state").read_bytes()
    shutil.copytree(out, tmp_path / "kept")
    count, survived = tries(12, 400), 0
    with Doomed() as process:
        for seed in range(count):
            shutil.rmtree(out)
            shutil.copytree(tmp_path / "kept", out)
            rng = np.random.default_rng(seed)
            damaged = mutated(state, rng) if seed % 4 == 0 else with_other_state(state, rng, tmp_path / "scratch")
            (out / ".resume" / "state").write_bytes(damaged)
            outcome = process.call(str(tmp_path), function=f"mutated_files:{goes_on.__name__}")
            good = outcome.code in (0, 2) and outcome.megabytes < MEGABYTES
            survived += good
            if not good:
                print(seed, outcome)
    score("a damaged checkpoint", count, survived)
