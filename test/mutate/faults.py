# SPDX-License-Identifier: Apache-2.0
"""The faults that a source file can have: which line becomes what."""
import re

# Each operator: a name, a pattern, and what the match becomes. They see the code of a line without
# strings and comments, which are blanked.
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
         "+": "-", "-": "+", "++": "--", "--": "++", "+=": "-=", "-=": "+=", "|=": "&="}
OPERATORS = [
    ("compare", r"(?<=[\w)\]] )(<=|>=|<|>|==|!=)(?= [\w(&*!-])", lambda m: SWAPS[m[0]]),
    ("logic", r"(?<= )(&&|\|\|)(?= )", lambda m: SWAPS[m[0]]),
    ("sum", r"(?<=[\w)\]] )[+-](?= [\w(])", lambda m: SWAPS[m[0]]),
    ("count", r"\+\+|--", lambda m: SWAPS[m[0]]),
    ("assign", r"(\+=|-=|\|=)", lambda m: SWAPS[m[0]]),
    ("number", r"(?<![\w.])\d+(?![\w.])", lambda m: "1" if m[0] == "0" else str(int(m[0]) - 1)),
    ("never", r"^(\s*(?:\} else )?if )\((.*)\) \{$", lambda m: f"{m[1]}(0 && ({m[2]})) {{"),
    ("always", r"^(\s*(?:\} else )?if )\((.*)\) \{$", lambda m: f"{m[1]}(1 || ({m[2]})) {{"),
    ("remove", r"^(\s+)(?!return\b|break\b|continue\b|goto\b|case\b|else\b|do\b)"
               r"(?:\(void\))?[a-z_][\w.>-]*(?:\[[^]]*\])?(?:\(.*\)| [|&+-]?= .*|\+\+|--);$",
     lambda m: m[1] + "; // " + m[0].strip()),
    ("leave", r"^(\s+)(break|continue);$", lambda m: m[1] + ";"),
    ("result", r"^(\s+)return (?!0;|NIXL_OK;|NULL;|false;|;)(.*);$", lambda m: f"{m[1]}return 0;"),
    ("result", r"^(\s+)return (true|false);$",
     lambda m: f"{m[1]}return {'false' if m[2] == 'true' else 'true'};"),
]
WHOLE = ("never", "always", "remove", "leave", "result") # of the whole line

# Lines in which a fault is no fault: what is said to people, assertions, declarations of constants.
DULL = re.compile(r"\b(nxr_log\w*|NXR_(LOG|TRACE|DEBUG|ASSERT)\w*|assert|snprintf|say|"
                  r"nxr_(debug|info|warn|error)|complain|warn\w*|static_assert|_Static_assert|errno = )\b|^\s*#|^\S.*\{$")

# Of these only the whole line can be at fault: the rest is what an error says.
SAYS = re.compile(r'\bnxr_fail\w*\(|"')

# The second argument of __builtin_expect(), in its line or alone in the next, changes no result.
HINT = re.compile(r"__builtin_expect\(.*, [01]\)|^\s*[01]\)+ \{$")


def blank(text):
    """The text with comments and strings as spaces, line by line the same length."""
    def spaces(match):
        return re.sub(r"[^\n]", " ", match[0])
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', spaces, text,
                  flags=re.S)


def faults_of_line(line, code):
    """The faults of a line: (operator, new line)."""
    for name, pattern, change in OPERATORS:
        if (SAYS.search(line) and name not in WHOLE) or (name == "number" and HINT.search(code)):
            continue
        if name in WHOLE:
            match = re.search(pattern, code) and re.match(pattern, line)
            if match and change(match) != line:
                yield name, change(match)
            continue
        for match in re.finditer(pattern, code):
            new = line[:match.start()] + change(match) + line[match.end():]
            if new != line:
                yield name, new


def faults_of(path):
    """All faults of a file: (line number from 0, operator, new text of the line)."""
    text = open(path).read()
    in_function = False
    for number, (line, code) in enumerate(zip(text.split("\n"), blank(text).split("\n"))):
        in_function = code.startswith("{") or (in_function and not code.startswith("}"))
        if not in_function or not code.strip() or DULL.search(line) or line.endswith("\\"):
            continue
        for name, new in faults_of_line(line, code):
            yield number, name, new
