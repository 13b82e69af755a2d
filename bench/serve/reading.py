"""What the machine gives meanwhile, for the benches beside it.

A virtual machine's memory is at one time half as fast as at another, so a
figure of a program that waits for memory needs that of a loop of vector loads
in the same minute, and one of a busy machine the share that others had.
"""
import os
import resource
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "..")


class Reading:
    """The program read-loop.c, compiled in `folder`; llmc is built in `build`.

    Calling it gives GB/s that all threads read together, of `mib` MiB, in the
    best of three rounds.
    """

    def __init__(self, build, folder, threads=None, mib=512):
        self.program = os.path.join(folder, "read-loop")
        self.words = [str(threads or os.cpu_count()), str(mib), "3"]
        subprocess.run(os.environ.get("CC", "cc").split() + [
            "-O2", "-march=native", "-std=gnu11", "-I" + SOURCE,
            "-I" + build, "-o", self.program,
            os.path.join(HERE, "read-loop.c"),
            os.path.join(build, "runtime", "librt_llmc.a"),
            "-ldl", "-lm", "-lpthread"], check=True)

    def __call__(self):
        return float(subprocess.run([self.program] + self.words, check=True,
                                    stdout=subprocess.PIPE).stdout)


def cores():
    """Seconds that all cores worked, and that our children did."""
    with open("/proc/stat", encoding="ascii") as f:
        t = [int(x) for x in f.readline().split()[1:9]]
    mine = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = sum(t) - t[3] - t[4]
    return (busy / os.sysconf("SC_CLK_TCK"), mine.ru_utime + mine.ru_stime,
            time.monotonic())


def watched(work):
    """What work() returns, and the share that others had of the cores."""
    before = cores()
    out = work()
    all_of, mine, wall = (b - a for a, b in zip(before, cores()))
    return out, max(0, all_of - mine) / (wall * os.cpu_count())
