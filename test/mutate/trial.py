# SPDX-License-Identifier: Apache-2.0
"""A worker: it has a copy of the tree to itself, puts faults into it, and runs tests on them."""
import glob
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

LIBRARY = "src/libnixlrun.la"


def is_unit(test):
    return test.startswith("test/unit/")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def end(process):
    """End a test: "limited" ends what the test has started."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass


class Tree:
    """A checkout with a build folder, which belongs to this process as long as it runs."""

    def __init__(self, path, limit):
        self.path, self.build, self.limit = path, path + "/build", limit
        self.env = dict(os.environ, top_srcdir=self.path, top_builddir=self.build, CC="cc",
                        CRITERION_OUTPUTS="tap:/dev/stdout",
                        NIXLRUN_MODULE_DIR=self.build + "/src/.libs/nixlrun")
        self.seconds = {} # what a test takes without a fault; one that is not in it is not run
        self.sums = {}    # of a source without a fault

    def make(self, *targets):
        return subprocess.run(["make", "-s", *targets], cwd=self.build, env=self.env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=900, check=False).returncode == 0

    def make_all(self, programs):
        """Build what is installed, and programs. Those that load the library are not linked anew for it."""
        return self.make(LIBRARY) and self.make("-o", LIBRARY, "all", *programs)

    def programs_of(self, tests):
        """What "make" has to build for the tests, besides what it builds always."""
        return subprocess.run([self.path + "/test/needs", self.path] + tests, text=True,
                              stdout=subprocess.PIPE, check=True).stdout.split()

    def compile(self, source):
        """A sum over the code that a source file becomes, or None if it is no program."""
        base = os.path.splitext(os.path.basename(source))[0]
        folder = f"{self.build}/{os.path.dirname(source)}"
        # libtool keeps those of shared libraries in .libs, and no others after --disable-static.
        names = [name for name in sorted(glob.glob(f"{folder}/*{base}.o") + glob.glob(f"{folder}/.libs/*{base}.o"))
                 if re.search(rf"(^|[-/]){re.escape(base)}\.o$", name)]
        targets = [os.path.relpath(name, self.build).replace("/.libs/", "/") for name in names]
        targets = sorted({t[:-1] + "lo" if os.path.exists(f"{self.build}/{t[:-1]}lo") else t for t in targets})
        if not self.make(*targets):
            return None
        total = hashlib.sha256()
        for name in names:
            subprocess.run(["objcopy", "-g", name, name + ".bare"], check=True)
            total.update(open(name + ".bare", "rb").read())
            os.remove(name + ".bare")
        return total.hexdigest()

    def run(self, test):
        """Run a test, and end it where it fails: what the first failure says, or None."""
        place = f"{self.path}/{test}" if "." in os.path.basename(test) else f"./{test}"
        runner = [self.path + "/test/mp/run-mp"] if test.endswith(".mp") else []
        process = subprocess.Popen([self.path + "/test/limited"] + runner + [place], cwd=self.build,
                                   env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True, text=True,
                                   errors="replace")
        cut = threading.Timer(min(self.limit, 15 + 5 * self.seconds.get(test, self.limit)), end, [process])
        cut.start()
        last, bad = "", None
        for line in process.stdout:
            last = line.strip() or last
            if re.match("not ok|Bail out!", line):
                bad = line.strip()
                end(process)
                break
        for line in process.stdout:
            pass
        status = process.wait()
        late = not cut.is_alive()
        cut.cancel()
        if bad or status:
            return f"{test}: {bad or ('not done in time' if late else last[-100:])}"
        return None

    def fails(self, test):
        """What a test says that fails; one with several processes has to fail in two of three runs."""
        said = self.run(test)
        if said is None or is_unit(test):
            return said
        return self.run(test) or self.run(test)

    def try_tests(self, tests):
        """Try the tests on the tree, which has a fault: the outcome, and a word."""
        tests = [test for test in tests if test in self.seconds]
        # What runs in one process needs few programs.
        small = [test for test in tests if is_unit(test)]
        for stage in (small, [test for test in tests if not is_unit(test)]):
            programs = self.programs_of(stage)
            if stage and not (self.make(*programs) if stage is small else self.make_all(programs)):
                return "no program", ""
            for test in sorted(stage, key=self.seconds.get):
                said = self.fails(test)
                if said:
                    return "found", said
        return "SURVIVED" if tests else "no test", " ".join(tests)

    def try_fault(self, source, number, line, tests):
        """What becomes of a fault: its outcome, and a word."""
        if source not in self.sums:
            self.sums[source] = self.compile(source)
        text = open(f"{self.path}/{source}").read()
        lines = text.split("\n")
        lines[number] = line
        try:
            write(f"{self.path}/{source}", "\n".join(lines))
            code = self.compile(source)
            if code is None:
                return "no program", ""
            if code == self.sums[source]:
                return "same code", ""
            return self.try_tests(tests)
        finally:
            write(f"{self.path}/{source}", text)

    def time_test(self, test):
        """Run a test without a fault: its seconds, or None and what it says."""
        if not self.make_all(self.programs_of([test])):
            return None, f"{test}: cannot be built"
        begin = time.time()
        said = self.fails(test)
        return (None, said) if said else (time.time() - begin, "")


def work(path, limit):
    """Answer each line of stdin, {"test": …} or {"fault": …, "seconds": …}, by one of stdout."""
    tree = Tree(path, limit)
    for line in sys.stdin:
        task = json.loads(line)
        if "test" in task:
            answer = tree.time_test(task["test"])
        else:
            tree.seconds = task["seconds"]
            begin = time.time()
            answer = (*tree.try_fault(*task["fault"]), time.time() - begin)
        print(json.dumps(answer), flush=True)
