#!/usr/bin/env python3
"""test_tree.py - this tree is clean, and the check sees each kind of problem in one that is not."""
import sys
from pathlib import Path

sys.path.insert(0, "tests/support")
from lint import run  # noqa: E402

CHECK = Path(__file__).with_name("tree.py")

GOOD = {
    "include/weir.h": "/* weir.h - all. */\n#include <stdint.h>\n",
    "src/base/span.h": "/* span.h - bytes. */\n",
    "src/base/hash.c": '/* hash.c - hashes. */\n#include <sodium.h>\n#include "base/span.h"\n',
    "src/policy/yaml.c": '/* yaml.c - reads. */\n#include <yaml.h>\n#include "weir.h"\n',
    "src/policy/policy.h": "/* policy.h - rules. */\n",
    "src/store/store.h": "/* store.h - states. */\n",
    "src/engine/engine.h": '/* engine.h - all. */\n#include "policy/policy.h"\n#include "store/store.h"\n',
    "src/proto/resp.h": '/* resp.h - bytes. */\n#include "base/span.h"\n#include "weir.h"\n',
    "README.md": "XXXX-large is no marker.\n",
}

# A name, the file, its content, and what must be said about it.
BAD = [
    ("base_sees_no_other_layer", "src/base/x.c", '/* x.c - x. */\n#include "policy/policy.h"\n',
     "src/base/x.c:2: base may not include policy"),
    ("policy_and_store_do_not_see_each_other", "src/store/x.c",
     '/* x.c - x. */\n\n# include "policy/policy.h"\n', "src/store/x.c:3: store may not include policy"),
    ("store_does_not_see_the_engine", "src/store/x.h", '/* x.h - x. */\n#include "engine/engine.h"\n',
     "src/store/x.h:2: store may not include engine"),
    ("proto_sees_base_only", "src/proto/x.c", '/* x.c - x. */\n#include "engine/engine.h"\n',
     "src/proto/x.c:2: proto may not include engine"),
    ("a_new_directory_needs_a_layer", "src/odd/x.c", '/* x.c - x. */\n#include "base/span.h"\n',
     "src/odd/x.c:2: src/odd is in no layer"),
    ("includes_are_relative_to_src", "src/store/x.c", '/* x.c - x. */\n#include "../policy/policy.h"\n',
     "src/store/x.c:2: there is no src/../policy/policy.h"),
    ("libyaml_is_in_one_file", "src/policy/x.c", "/* x.c - x. */\n#include <yaml.h>\n",
     "src/policy/x.c:2: only src/policy/yaml.c may include yaml.h"),
    ("libsodium_is_in_two_files", "src/engine/x.c", "/* x.c - x. */\n#include <sodium.h>\n",
     "src/engine/x.c:2: only src/base/hash.c and src/base/secret.c may include sodium.h"),
    ("the_public_header_stands_alone", "include/x.h", '/* x.h - x. */\n#include "base/span.h"\n',
     "include/x.h:2: a public header cannot include base/span.h"),
    ("a_file_names_itself", "tests/unit/x.c", "/* y.c - x. */\n", "tests/unit/x.c:1: the first line"),
    ("an_empty_file_names_nothing", "src/base/x.c", "", "src/base/x.c:1: the first line"),
    ("unfinished_work_is_seen", "docs/x.md", "fine\nTO" "DO: more\n", "docs/x.md:2: TO" "DO: finish"),
]


sys.exit(run(CHECK, GOOD, BAD))
