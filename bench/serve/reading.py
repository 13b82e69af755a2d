"""What memory gives to a loop of vector loads, for the benches beside it.

A virtual machine's memory is at one time half as fast as at another, so a
figure of a program that waits for memory needs the loop's of the same minute.
"""
import os
import subprocess

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
