#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures about the structure of the tree: see README in this folder.

Folders are the rows of the file "floors". A call is a symbol that one object file leaves undefined and
another one defines, functions and variables alike; what is called through a pointer is no call.
"""
import argparse
import collections
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
ROOTS = ("include", "src", "transports", "launcher", "examples")
CODE = ("src", "transports", "launcher")  # whose functions and symbols are counted
LIBRARY = ("src/", "transports/")         # what is linked into a user's program
NO_CALLS = ("main", "send", "writev")     # the C library's last two are replaced by launcher/server_answer.c
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)', re.M)
ATTRIBUTE = re.compile(r"__attribute__\(\(.*?\)\)\s*\)?|\bNXR_[A-Z_]+\b")
STATIC_STRUCT = re.compile(r"^static [^=;(]*?\{.*?^\} *(\w+)", re.M | re.S)
STATIC_DATA = re.compile(r"^static [^=;({]*?(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=|;)", re.M)


class Floor:
    """A row of the file "floors"."""

    def __init__(self, words, number):
        if len(words) < 2 or not words[0].isdigit():
            raise ValueError(f"floors:{number}: wanted FLOOR FOLDER [only FOLDER...] [calls FOLDER...]")
        self.height = int(words[0])
        self.folder = words[1]
        self.lists = {}
        name = None
        for word in words[2:]:
            if word in ("only", "calls"):
                name = self.lists.setdefault(word, [])
            elif name is None:
                raise ValueError(f"floors:{number}: '{word}' is not 'only' or 'calls'")
            else:
                name.append(word)


def matches(pattern, folder):
    """Does a folder's name in "floors", which may end in /*, mean this folder?"""
    if pattern.endswith("/*"):
        return folder.startswith(pattern[:-1])
    return pattern == folder


class Floors:
    """The order of the folders, and what may use what."""

    def __init__(self, path):
        self.rows = []
        self.allowed_statics = set()
        self.private = set()
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                words = line.split("#")[0].split()
                if words and words[0] == "static":
                    self.allowed_statics.update(words[1:])
                elif words and words[0] == "private":
                    self.private.update(words[1:])
                elif words:
                    self.rows.append(Floor(words, number))

    def row(self, folder):
        for row in self.rows:
            if matches(row.folder, folder):
                return row
        return None

    def allows(self, user, used, symbol=None):
        """May a file of the folder `user` call the symbol of the folder `used`, or include a file of it?"""
        if user == used:
            return True
        above, below = self.row(user), self.row(used)
        if above is None or below is None:
            return False
        if "only" not in above.lists:
            return below.height < above.height
        names = above.lists["only"]
        if symbol:
            names = names + above.lists.get("calls", [])
            if "public" in names and symbol.startswith("nixl_"):
                return True
        return any(matches(name, used) for name in names)


class Tree:
    """What the sources and the object files say."""

    def __init__(self, top, build, moves):
        self.top = top
        self.moves = moves
        self.files = self.find_files()
        self.includes = self.find_includes()
        self.included_by = {}  # file -> those that it includes
        for file, included in self.includes:
            self.included_by.setdefault(file, set()).add(included)
        self.defined = {}     # file -> {symbol: section}
        self.undefined = {}   # file -> {symbol}
        if build:
            self.read_objects(build)
        self.calls = self.find_calls()

    def folder(self, file):
        """Where the file stands, or will stand after the moves."""
        return self.moves.get(file) or os.path.dirname(file)

    def find_files(self):
        found = []
        for root in ROOTS:
            for where, folders, names in os.walk(os.path.join(self.top, root)):
                folders.sort()
                found += [os.path.relpath(os.path.join(where, name), self.top)
                          for name in sorted(names) if name.endswith((".c", ".h", ".def"))]
        return found

    def text(self, file):
        with open(os.path.join(self.top, file), encoding="utf-8", errors="replace") as stream:
            return stream.read()

    def find_includes(self):
        """As the compiler looks: beside the file first, then include/, src/ and the top."""
        known = set(self.files)
        found = set()
        for file in self.files:
            for name in INCLUDE.findall(self.text(file)):
                for place in (os.path.dirname(file), "include", "src", ""):
                    path = os.path.normpath(os.path.join(place, name))
                    if path in known:
                        found.add((file, path))
                        break
        return found

    def reached(self, file, known=None):
        """The files that a file includes, also by others that it includes."""
        known = known if known is not None else set()
        for path in self.included_by.get(file, ()):
            if path not in known:
                known.add(path)
                self.reached(path, known)
        return known

    def read_objects(self, build):
        """Every object whose source is in the tree; those of programs of tests do not count twice."""
        sources = set(self.files)
        objects = {}
        for root in CODE:
            for where, _, names in os.walk(os.path.join(build, root)):
                for name in names:
                    source = self.source_of(build, where, name, sources)
                    if source:
                        objects[os.path.join(where, name)] = source
        self.check_objects(build, set(objects.values()))
        listing = ""
        if objects:
            listing = subprocess.run(["nm", "-A", "-P", *objects], check=True, text=True,
                                     stdout=subprocess.PIPE).stdout
        for line in listing.splitlines():
            path, symbol, kind = re.match(r"(.*?): (\S+) (\S)", line).groups()
            self.add_symbol(objects[path], symbol, kind)

    def check_objects(self, build, found):
        """Without objects there would be no calls. What needs Vulkan or a network's library may lack."""
        wanted = {file for file in self.files if file.endswith(".c") and file.startswith(CODE)}
        if len(wanted - found) > len(wanted) / 5:
            raise ValueError(f"{build} has the objects of only {len(found & wanted)} of {len(wanted)}"
                             " sources; run `make` there first")

    @staticmethod
    def source_of(build, where, name, sources):
        """build/src/host/.libs/libfoo_la-ring.o is src/host/ring.c."""
        if not name.endswith(".o"):
            return None
        folder = os.path.relpath(where, build)
        if os.path.basename(folder) == ".libs":
            folder = os.path.dirname(folder)
        stem = name[:-2].rsplit("-", 1)[-1]
        source = os.path.join(folder, stem + ".c")
        return source if source in sources else None

    def add_symbol(self, source, symbol, kind):
        if symbol.startswith("_") or "." in symbol or symbol in NO_CALLS:
            return
        if kind == "U":
            self.undefined.setdefault(source, set()).add(symbol)
        elif kind.isupper():
            self.defined.setdefault(source, {})[symbol] = kind

    def find_calls(self):
        """Set of (file, symbol, file that defines it). A name that several files define, each for its
        own program, belongs to the one in the same folder."""
        owners = collections.defaultdict(set)
        for file, symbols in self.defined.items():
            for symbol in symbols:
                owners[symbol].add(file)
        found = set()
        for file, symbols in self.undefined.items():
            for symbol in symbols:
                near = {owner for owner in owners[symbol]
                        if os.path.dirname(owner) == os.path.dirname(file)}
                found.update((file, symbol, owner) for owner in near or owners[symbol])
        return {call for call in found if call[0] != call[2]}


def components(edges):
    """Strongly connected sets of more than one node, the largest first (Tarjan)."""
    graph = collections.defaultdict(set)
    for a, b in edges:
        graph[a].add(b)
        graph[b] |= set()
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        work = [(node, iter(sorted(graph[node])))]
        index[node] = low[node] = len(index)
        stack.append(node)
        while work:
            here, rest = work[-1]
            for following in rest:
                if following not in index:
                    index[following] = low[following] = len(index)
                    stack.append(following)
                    work.append((following, iter(sorted(graph[following]))))
                    break
                if following in stack:
                    low[here] = min(low[here], index[following])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[here])
                if low[here] == index[here]:
                    at = stack.index(here)
                    found.append(sorted(stack[at:]))
                    del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted((part for part in found if len(part) > 1), key=lambda part: (-len(part), part))


Function = collections.namedtuple("Function", "file line name lines complexity is_static")


def read_functions(tree):
    """What pmccabe says of each function: its lines with the braces, McCabe's complexity."""
    files = [file for file in tree.files if file.startswith(tuple(root + "/" for root in CODE))
             and file.endswith((".c", ".h"))]
    if not files:
        return []
    run = subprocess.run(["pmccabe", *files], cwd=tree.top, check=True, text=True, capture_output=True)
    # It reads no structs that are made by macros, and says so; of a source it must read all.
    unread = re.findall(r'^"(.*?\.c)".*', run.stderr, re.M)
    if unread:
        raise ValueError(f"pmccabe cannot read {' '.join(unread)}: {run.stderr}")
    texts = {file: tree.text(file).splitlines() for file in files}
    found = []
    for line in run.stdout.splitlines():
        numbers, place, name = re.match(r"(.*)\t(\S+): (.*)", line).groups()
        file, first = re.match(r"(.*)\((\d+)\)", place).groups()
        _, complexity, _, _, lines = (int(number) for number in numbers.split())
        head = ATTRIBUTE.sub("", " ".join(texts[file][int(first) - 1:int(first) + 2]))
        if name == "__attribute__":  # the name stands behind it, if it is a function
            named = re.search(r"(\w+)\(", head)
            if not named:
                continue
            name = named[1]
        found.append(Function(file, int(first), name, lines, complexity,
                              head.strip().startswith("static")))
    return found


def repeated_statics(tree, functions, allowed):
    """Names of static functions and variables that stand in more than one file."""
    places = collections.defaultdict(set)
    for function in functions:
        if function.is_static:
            places[function.name].add(function.file)
    for file in tree.files:
        if file.startswith(tuple(root + "/" for root in CODE)):
            text = ATTRIBUTE.sub("", tree.text(file))
            for name in STATIC_DATA.findall(text) + STATIC_STRUCT.findall(text):
                places[name].add(file)
    return {name: sorted(files) for name, files in places.items()
            if len(files) > 1 and name not in allowed}


class Units:
    """The unit programs of test/unit/local.mk: what each links, against the floors.

    A program tests the folder whose floor_FOLDER it links. floor_src is all of the library.
    """

    SOURCES = re.compile(r"^(?:%C%_)?(\w+)_SOURCES *\+?= *(.*)", re.M)
    LDADD = re.compile(r"^%C%_(\w+)_LDADD *= *(.*)", re.M)
    VARIABLE = re.compile(r"^(\w+) *= *(.*)", re.M)

    def __init__(self, tree, floors):
        self.tree = tree
        self.floors = floors
        text = self.makefile("test/unit/local.mk")
        self.variables = dict(self.VARIABLE.findall(text))
        self.sources = {name: self.expand(files.replace("%D%", "test/unit")).split()
                        for name, files in self.SOURCES.findall(text)}
        self.programs = {name: libraries for name, libraries in self.LDADD.findall(text)
                         if "$(CRITERION_LIBS)" in self.expand_once(libraries)}

    def makefile(self, path):
        """Its text with one line for each assignment; empty without the file."""
        if not os.path.exists(os.path.join(self.tree.top, path)):
            return ""
        return re.sub(r"\s*\\\n\s*", " ", self.tree.text(path))

    def expand_once(self, text):
        return re.sub(r"\$\((\w+)\)", lambda match: self.variables.get(match[1], match[0]), text)

    def expand(self, text):
        """With the variables of this file; those of configure are empty."""
        while self.expand_once(text) != text:
            text = self.expand_once(text)
        return re.sub(r"\$\(\w+\)", "", text)

    def folders(self, library):
        """Of the sources of a library, which stand in the local.mk of its folder."""
        where, name = os.path.split(library)
        lists = [files for target, files in self.SOURCES.findall(self.makefile(f"{where}/local.mk"))
                 if target == re.sub(r"\W", "_", name)]
        return {os.path.dirname(file.replace("%D%", where))
                for files in lists for file in files.split() if file.endswith(".c")}

    def folder_of(self, floor):
        """src/core for floor_core, src for floor_src, transports/* for floor_transports."""
        for name in (f"src/{floor}", floor, f"{floor}/*"):
            if any(row.folder == name for row in self.floors.rows):
                folder = name
        return folder

    def included(self, file, known=None):
        """The files that a source of a test includes, also by the headers of tests."""
        known = known if known is not None else set()
        for name in INCLUDE.findall(self.tree.text(file)):
            for path in (os.path.join(os.path.dirname(file), name), name, f"src/{name}"):
                if path not in known and os.path.isfile(os.path.join(self.tree.top, path)):
                    known.add(path)
                    if path.startswith("test/"):
                        self.included(path, known)
                    break
        return known

    def is_of_all(self, file):
        """Does the test need init.c, or is it of the public header only?"""
        return (re.search(r"\b(nixl_init|nxr_subsystems_compose)\(", self.tree.text(file)) or
                not any(name.startswith("src/") for name in self.included(file)))

    def wrong(self, program):
        """Lines on what the program links against the floors."""
        names = re.findall(r"\$\(floor_(\w+)\)", self.programs[program])
        libraries = [word for word in self.expand(self.programs[program]).split()
                     if word.endswith(".la")]
        folders = sorted({folder for library in libraries for folder in self.folders(library)})
        main = self.sources.get(program, [f"test/unit/{program}.c"])[0]
        if len(names) != 1:
            return [f"test/unit/{program} links {folder} by no floor_FOLDER" for folder in folders
                    if folder.startswith("src") and folder != "src/util"]
        own = self.folder_of(names[0])
        if own == "src":
            return [] if self.is_of_all(main) else [f"test/unit/{program} links src"]
        height = self.floors.row(own).height
        lines = [f"test/unit/{program} links {folder} above {own}" for folder in folders
                 if not matches(own, folder) and self.floors.row(folder).height >= height
                 and not folder.startswith(own + "/")]
        if not any(matches(own, os.path.dirname(path)) or path.startswith(own + "/")
                   for path in self.included(main)):
            lines.append(f"test/unit/{program} links {own} and includes nothing of it")
        return lines


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * part))] if values else 0


class Figures:
    """All that is measured: self.lists by figure, what each found; self.values, how much."""

    def __init__(self, tree, floors):
        self.tree = tree
        self.floors = floors
        self.functions = read_functions(tree)
        self.include_arrows = self.arrows((a, None, b) for a, b in tree.includes)
        self.call_arrows = self.arrows(tree.calls)
        self.lists = collections.OrderedDict()
        self.values = collections.OrderedDict()
        self.measure_arrows()
        self.measure_cycles()
        self.measure_functions()
        self.measure_names()
        units = Units(tree, floors)
        self.put("unit-programs-above-floor",
                 (line for program in units.programs for line in units.wrong(program)))

    def arrows(self, uses):
        """(folder, folder it uses) -> [how many uses, how many of them against the floors]"""
        count = {}
        for a, symbol, b in uses:
            arrow = self.tree.folder(a), self.tree.folder(b)
            cell = count.setdefault(arrow, [0, 0])
            cell[0] += 1
            cell[1] += not self.floors.allows(*arrow, symbol)
        return count

    def put(self, name, items, value=None):
        self.lists[name] = sorted(items)
        self.values[name] = len(self.lists[name]) if value is None else value

    def measure_arrows(self):
        folder, allows = self.tree.folder, self.floors.allows
        includes = [f"{a} includes {b}" for a, b in self.tree.includes
                    if not allows(folder(a), folder(b))]
        calls = [f"{a} calls {symbol} of {b}" for a, symbol, b in self.tree.calls
                 if not allows(folder(a), folder(b), symbol)]
        for name, found in (("includes", includes), ("calls", calls)):
            within = {line for line in found if line.startswith("src/")}
            self.put(f"{name}-against-floors-in-src", within)
            self.put(f"{name}-against-floors-elsewhere", set(found) - within)
        self.put("folders-without-floor",
                 {folder(file) for file in self.tree.files if not self.floors.row(folder(file))})

        self.put("private-headers-in-other-folders",
                 (f"{file} reaches {path}" for file in self.tree.files
                  for path in self.floors.private & self.tree.reached(file)
                  if folder(path) != folder(file)))

    def measure_cycles(self):
        folder = self.tree.folder
        # Of functions only: a list of tables uses them all, and they what the list's owner offers.
        calls = [(a, b) for a, symbol, b in self.tree.calls
                 if self.tree.defined[b][symbol] in ("T", "W", "i")]
        cycles = components({(folder(a), folder(b)) for a, b in calls if folder(a) != folder(b)})
        self.put("folders-in-cycles", (name for cycle in cycles for name in cycle))
        within = components((a, b) for a, b in calls if folder(a) == folder(b))
        self.put("cycle-within-folder", (" ".join(cycle) for cycle in within),
                 max(map(len, within), default=0))
        whole = components((a, b) for a, b in calls if a.startswith("src/"))
        self.put("cycle-within-src", whole[0] if whole else [])
        self.put("files-at-top-of-src",
                 (file for file in self.tree.files if folder(file) == "src"
                  and file != "src/init.c"))

    def measure_functions(self):
        lines = [function.lines for function in self.functions]
        for part in (50, 90, 99):
            self.put(f"function-lines-p{part}", [], percentile(lines, part / 100))
        longest = max(lines, default=0)
        self.put("function-lines-max", (f"{f.file}:{f.line}: {f.name}() has {f.lines} lines"
                                        for f in self.functions if f.lines == longest), longest)
        worst = [f for f in self.functions if f.complexity > 20]
        self.put("complexity-max", [], max((f.complexity for f in self.functions), default=0))
        self.put("complexity-above-20", (f"{f.file}:{f.line}: {f.name}() has {f.complexity}"
                                         for f in worst))

    def measure_names(self):
        self.put("externals-without-prefix",
                 (f"{symbol} of {file}" for file, symbols in self.tree.defined.items()
                  if file.startswith(LIBRARY) for symbol in symbols
                  if not symbol.startswith(("nxr_", "nixl_"))))
        repeated = repeated_statics(self.tree, self.functions, self.floors.allowed_statics)
        self.put("statics-in-several-files",
                 (f"{name}: {' '.join(files)}" for name, files in repeated.items()))


def read_limits(path):
    """figure -> (at most today, at most in the end)"""
    limits = collections.OrderedDict()
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            words = line.split("#")[0].split()
            if words and len(words) != 3:
                raise ValueError(f"limits:{number}: wanted FIGURE TODAY FINAL")
            if words:
                limits[words[0]] = (int(words[1]), int(words[2]))
    return limits


def print_matrix(title, arrows, floors):
    """Rows use columns, both in the order of the floors; ! marks what goes against it."""
    names = sorted({name for arrow in arrows for name in arrow},
                   key=lambda name: (floors.row(name).height if floors.row(name) else 99, name))
    print(f"\n{title} from row to column, lowest floor first (! against the order of floors):")
    print(" " * 32 + "".join(f"{number:>7}" for number in range(len(names))))
    for number, name in enumerate(names):
        cells = ""
        for used in names:
            count, against = arrows.get((name, used), (0, 0))
            cells += f"{(str(count) if count else '.') + ('!' if against else ''):>7}"
        row = floors.row(name)
        print(f"{row.height if row else '?':>2} {number:>2} {name:<26}{cells}")


def print_table(figures, limits):
    print(f"\n{'figure':<28}{'now':>7}{'ratchet':>9}{'final':>7}")
    for name, value in figures.values.items():
        today, final = limits.get(name, ("-", "-"))
        state = ""
        if name in limits:
            state = "  met" if value <= final else "  WORSE" if value > today else ""
            state += "  lower the ratchet" if value < today and today > final else ""
        print(f"{name:<28}{value:>7}{today:>9}{final:>7}{state}")


def check(figures, limits):
    """Lines on what got worse; remarks on what got better go to stdout as TAP comments."""
    worse = []
    for name, (today, final) in limits.items():
        value = figures.values[name]
        if value > max(today, final):
            worse.append(f"{name} is {value}, was {today}: test/metrics/metrics.py --list {name}")
        elif value < today and today > final:
            print(f"# {name} is {value} now, test/metrics/limits says {today}: lower it with"
                  " test/metrics/metrics.py --lower")
    return worse


def lower(path, figures, limits):
    """Write today's figures where they are better than those of the file."""
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    for name, (today, final) in limits.items():
        value = max(figures.values[name], final)
        if value < today:
            text = re.sub(rf"^({name}\s+){today}\b", rf"\g<1>{value}", text, flags=re.M)
            print(f"{name}: {today} -> {value}")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


def read_moves(path):
    """Lines of FILE FOLDER: the figures as they would be if the files stood there."""
    moves = {}
    if path:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                words = line.split("#")[0].split()
                if words:
                    moves[words[0]] = words[1].rstrip("/")
    return moves


def parse():
    top = os.environ.get("top_srcdir") or os.path.dirname(os.path.dirname(HERE))
    parser = argparse.ArgumentParser(description="Print figures about the structure of the tree.")
    parser.add_argument("--tree", default=top, help="the sources (default: this tree)")
    parser.add_argument("--build", default=os.environ.get("top_builddir") or os.path.join(top, "build"),
                        help="the folder with the objects (default: build/ in the tree)")
    parser.add_argument("--floors", default=os.path.join(HERE, "floors"))
    parser.add_argument("--limits", default=os.path.join(HERE, "limits"))
    parser.add_argument("--moves", help="a file of FILE FOLDER: as if these files stood there")
    parser.add_argument("--list", metavar="FIGURE", action="append", default=[],
                        help="print what this figure counts ('all': of every figure)")
    parser.add_argument("--check", action="store_true",
                        help="print only what is worse than the file of limits; status 1 if anything is")
    parser.add_argument("--lower", action="store_true", help="write better figures into that file")
    return parser.parse_args()


def main():
    options = parse()
    floors = Floors(options.floors)
    figures = Figures(Tree(options.tree, options.build, read_moves(options.moves)), floors)
    if options.list:
        for name in figures.lists if "all" in options.list else options.list:
            print("\n".join(figures.lists[name]))
        return 0
    limits = read_limits(options.limits)
    if options.check:
        worse = check(figures, limits)
        print("\n".join(worse))
        return 1 if worse else 0
    if options.lower:
        lower(options.limits, figures, limits)
        return 0
    print_matrix("includes", figures.include_arrows, floors)
    print_matrix("calls", figures.call_arrows, floors)
    print_table(figures, limits)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        sys.exit(f"metrics.py: {error}")
