#!/usr/bin/env python3
"""embed.py - writes files of this tree as C arrays, so that the program contains them.

    scripts/embed.py lua|proto|sql|style|web OUTPUT.c DEPFILE

    lua   the scripts of lua/, and their SHA-1, by which Redis knows them
    proto the descriptors of proto/, for clients that ask by reflection what is served
    sql   the migrations of sql/ and sql/rollback/, each with a checksum
    style the style of the page that `weir replay` writes
    web   the files of the dashboard: each with its media type, its checksum, and compressed. The page
          names the others with the checksum of all in their path, so that browsers may keep them for ever
"""
import gzip
import hashlib
import sys
from pathlib import Path

import descriptors

ROOT = Path(__file__).resolve().parent.parent
TYPES = {".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


def array(declaration, data):
    rows = (", ".join(f"'\\x{byte:02x}'" for byte in data[at:at + 16])
            for at in range(0, len(data), 16))
    return f"{declaration}[] = {{\n    " + ",\n    ".join(rows) + "\n};\n"


def text(declaration, data):
    return array(declaration, data + b"\0")


def lua():
    """Each script is the algorithms and one file."""
    code, files = "", [ROOT / "lua" / f"{name}.lua" for name in ("limits", "judge", "reserve")]
    for file in files[1:]:
        script = files[0].read_bytes() + file.read_bytes()
        code += text(f"const char {file.stem}_script", script)
        code += f'const char {file.stem}_sha[] = "{hashlib.sha1(script).hexdigest()}";\n'
    declared = "".join(f"extern const char {file.stem}_script[], {file.stem}_sha[];\n"
                       for file in files[1:])
    return "store/redis/codec.h", declared + "\n" + code, files


def proto():
    folder = ROOT / "proto"
    code, rows, symbols, services = "", "", [], []
    for i, (file, descriptor, needed) in enumerate(descriptors.read(folder)):
        code += array(f"static const char file_{i}", descriptor)
        code += f"static const unsigned char needs_{i}[] = {{ {', '.join(map(str, needed))} }};\n"
        rows += f'    {{ "{file.name}", {{ file_{i}, sizeof file_{i} }}, needs_{i}, sizeof needs_{i} }},\n'
        symbols += [f'    {{ "{name}", {i} }},\n' for name in file.symbols()]
        services += [f'    "{file.package}.{name}",\n' for name, _ in file.services]
    code += f"\nconst struct descriptor_file descriptor_files[] = {{\n{rows}}};\n"
    code += f"const size_t descriptor_file_count = {i + 1};\n"
    code += f"\nconst struct descriptor_symbol descriptor_symbols[] = {{\n{''.join(symbols)}}};\n"
    code += f"const size_t descriptor_symbol_count = {len(symbols)};\n"
    code += f"\nconst char *const descriptor_services[] = {{\n{''.join(services)}}};\n"
    code += f"const size_t descriptor_service_count = {len(services)};\n"
    folders = sorted({folder, *(path.parent for path in folder.rglob("*.proto"))})
    return "proto/reflection.h", code, [Path(descriptors.__file__), *folders, *sorted(folder.rglob("*.proto"))]


def without_transaction(file):
    """A file is a transaction for those who run it by hand; the program has one around each."""
    return b"".join(line for line in file.read_bytes().splitlines(keepends=True)
                    if line.strip() not in (b"BEGIN;", b"COMMIT;"))


def sql():
    folder = ROOT / "sql"
    code, rows, used = "", [], [folder, folder / "rollback"]
    for file in sorted(folder.glob("[0-9]*.sql")):
        number, back = file.stem.split("_")[0], folder / "rollback" / file.name
        apply = without_transaction(file)
        code += text(f"static const char apply_{number}", apply)
        code += text(f"static const char rollback_{number}", without_transaction(back))
        rows.append(f'    {{ {int(number)}, "{file.stem}", apply_{number}, rollback_{number},\n'
                    f'      "{hashlib.sha256(apply).hexdigest()}" }},\n')
        used += [file, back]
        if int(number) != len(rows):
            sys.exit(f"{file}: number {len(rows)} was expected")
    code += "\nconst struct migration migrations[] = {\n" + "".join(rows) + "    { 0 },\n};\n"
    code += f"const size_t migration_count = {len(rows)};\n"
    return "cli/store/migrations.h", code, used


def style():
    file = ROOT / "src/cli/replay/report.css"
    return "cli/replay/report_html.h", text("const char report_style", file.read_bytes()), [file]


def checksum(data):
    return hashlib.sha256(data).hexdigest()[:16]


def web():
    folder = ROOT / "web"
    files = sorted(file for file in folder.iterdir() if file.suffix in TYPES)
    edition = checksum(b"".join(file.read_bytes() for file in files))
    code, rows = f'const char dashboard_edition[] = "{edition}";\n', []
    for file in files:
        name, data = file.name.replace(".", "_"), file.read_bytes()
        if file.suffix == ".html":
            data = data.replace(b'"/ui/', f'"/ui/{edition}/'.encode())
        code += array(f"static const char {name}", data)
        code += array(f"static const char {name}_gz", gzip.compress(data, 9, mtime=0))
        rows.append(f'    {{ "{file.name}", "{TYPES[file.suffix]}", "\\"{checksum(data)}\\"",\n'
                    f'      {{ {name}, sizeof {name} }}, {{ {name}_gz, sizeof {name}_gz }} }},\n')
    code += "\nconst struct dashboard_file dashboard_files[] = {\n" + "".join(rows) + "};\n"
    code += f"const size_t dashboard_file_count = {len(files)};\n"
    return "server/http/dashboard.h", code, [folder, *files]


def main(what, output, depfile):
    header, code, used = {"lua": lua, "proto": proto, "sql": sql, "style": style, "web": web}[what]()
    Path(output).write_text(f"/* {Path(output).name} - of {what}, by scripts/embed.py. */\n"
                            f'#include "{header}"\n\n{code}')
    used = " ".join(str(path) for path in [Path(__file__).resolve(), *used])
    Path(depfile).write_text(f"{output}: {used}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
