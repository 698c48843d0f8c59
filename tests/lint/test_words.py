#!/usr/bin/env python3
"""test_words.py - this tree says each thing by its word, and the check sees those that were given up."""
import sys
from pathlib import Path

sys.path.insert(0, "tests/support")
from lint import run  # noqa: E402

GOOD = {
    "README.md": "Connections are refused while there are too many; a check is denied.\n",
    "docs/glossary.md": "`block_rate` was its name once.\n",
    "src/server/log/decision_log.c": '/* refused */\njson_text(j, "scope", policy);\njson_text(j, "event", "denied");\n',
    "src/server/metrics.c": 'json_int(j, "refused", refused_connections);\nint refused = 1; /* no text */\n',
    "src/engine/weir.c": 'names[] = { "store", "exempt", "blocked", "off" };\n',
    "sql/0006_upkeep.sql": "CREATE VIEW weir.deny_rate AS SELECT denied; -- who was refused\n",
    "web/index.html": '<th scope="col">Denied</th>\n',
    "examples/alerts.yaml": "summary: new connections are refused\n",
}

# A name, the file, its content, and what must be said about it.
BAD = [
    ("a_text_says_denied", "src/cli/x.c", 'puts("3 checks");\nputs("2 refused");\n',
     "src/cli/x.c:2: 'refused': say denied"),
    ("only_operators_block", "src/server/x.c", 'json_int(j, "blocked", n);\n', "src/server/x.c:1: 'blocked'"),
    ("a_metric_says_denied", "src/server/x.c", 'metric(out, "weir_denials_held");\n',
     "src/server/x.c:1: 'denials_held': say deny_cache_entries"),
    ("a_member_says_shadow_denied", "docs/openapi.json", '{"would_deny": {"type": "boolean"}}\n',
     "docs/openapi.json:1: 'would_deny': say shadow_denied"),
    ("a_member_of_the_library_does", "include/weir.h", "bool would_deny;\n", "include/weir.h:1: 'would_deny'"),
    ("a_view_says_denied", "sql/0001_x.sql", "-- of it\nCREATE VIEW weir.most_limited AS SELECT 1;\n",
     "sql/0001_x.sql:2: 'most_limited'"),
    ("a_column_has_no_subject", "sql/0001_x.sql", "subject text NOT NULL,\n", "sql/0001_x.sql:1: 'subject': say kind"),
    ("a_policy_is_no_scope", "docs/openapi.json", '{"scope": {"description": "the policy"}}\n',
     "docs/openapi.json:1: 'scope': say policy"),
    ("the_dashboard_has_overrides", "web/x.html", "<caption>Exceptions in force</caption>\n",
     "web/x.html:1: 'Exceptions': say override"),
    ("a_limit_without_a_name_is_unnamed", "web/x.js", 'name ?? "(in requests)"\n',
     "web/x.js:1: '(in requests)': say (unnamed)"),
    ("an_alert_says_deny_rate", "examples/x.yaml", "a: {block_rate: 20% per 5m}\n",
     "examples/x.yaml:1: 'block_rate': say deny_rate"),
    ("a_page_says_in_shadow", "docs/x.md", "fine\nLimits on trial\n", "docs/x.md:2: 'on trial': say in shadow"),
    ("a_page_names_who_it_is", "docs/x.md", "| meanwhile | nobody |\n", "docs/x.md:1: 'nobody': say who it is"),
    ("a_comment_does", "src/store/x.c", "/* x.c - x. */\n/* somebody waits */\n", "src/store/x.c:2: 'somebody'"),
    ("a_page_of_a_package_does", "packaging/npm/x.md", "Whoever asks waits.\n", "packaging/npm/x.md:1: 'Whoever'"),
    ("a_page_says_denied", "docs/x.md", "Who is refused waits.\n", "docs/x.md:1: 'refused': say denied"),
    ("a_rule_of_words_is_for_its_line_only", "src/cli/x.c", 'puts("a token was refused");\n',
     "src/cli/x.c:1: 'refused'"),
]

sys.exit(run(Path(__file__).with_name("words.py"), GOOD, BAD))
