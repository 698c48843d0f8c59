"""descriptors.py - what proto/ says, as the descriptors that protoc would write.

Reads the part of proto3 that these files use: messages, enums, maps, oneofs, optional fields and services, each with
comments. Anything else is an error. tests/unit/proto/test_descriptors.py compares the result with protoc's.
"""
import re

TOKEN = re.compile(r'//[^\n]*|\s+|("[^"]*"|[A-Za-z_.][\w.]*|\d+|[{}()<>=;,])')
SCALARS = {"double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8,
           "string": 9, "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18}
MESSAGE, ENUM = 11, 14  # types of fields
OPTIONAL, REPEATED = 1, 3


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """One field of a message: a number, or a text or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def camel(name):
    """Its name in JSON."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


class Field:
    def __init__(self, name, number, kind, label=OPTIONAL, oneof=None, is_optional=False):
        self.name, self.number, self.kind, self.label = name, number, kind, label
        self.oneof, self.is_optional = oneof, is_optional


class Message:
    def __init__(self, name, is_entry=False):
        self.name, self.is_entry = name, is_entry
        self.fields, self.messages, self.enums, self.oneofs = [], [], [], []


class File:
    def __init__(self, name, text):
        self.name, self.package, self.imports = name, "", []
        self.messages, self.enums, self.services = [], [], []
        self.tokens = self.split(text)
        while self.tokens:
            self.statement()

    # ---- reading ----

    def split(self, text):
        at, tokens = 0, []
        while at < len(text):
            match = TOKEN.match(text, at)
            if not match:
                raise SyntaxError(f"{self.name}: not understood: {text[at:at + 20]!r}")
            if match[1]:
                tokens.append(match[1])
            at = match.end()
        return tokens

    def take(self, expected=None):
        token = self.tokens.pop(0)
        if expected and token != expected:
            raise SyntaxError(f"{self.name}: {expected!r} was expected, not {token!r}")
        return token

    def statement(self):
        word = self.take()
        if word == "syntax":
            self.take("=")
            self.take('"proto3"')
            self.take(";")
        elif word == "package":
            self.package = self.take()
            self.take(";")
        elif word == "import":
            self.imports.append(self.take().strip('"'))
            self.take(";")
        elif word == "message":
            self.messages.append(self.message())
        elif word == "enum":
            self.enums.append(self.enum())
        elif word == "service":
            self.services.append(self.service())
        else:
            raise SyntaxError(f"{self.name}: {word!r} is not understood")

    def message(self):
        m = Message(self.take())
        self.take("{")
        while self.tokens[0] != "}":
            if self.tokens[0] == "message" and self.tokens[2] == "{":
                self.take()
                m.messages.append(self.message())
            elif self.tokens[0] == "enum" and self.tokens[2] == "{":
                self.take()
                m.enums.append(self.enum())
            elif self.tokens[0] == "oneof":
                self.take()
                m.oneofs.append(self.take())
                self.take("{")
                while self.tokens[0] != "}":
                    m.fields.append(self.plain_field(oneof=len(m.oneofs) - 1))
                self.take("}")
            elif self.tokens[0] == "map":
                self.map(m)
            else:
                m.fields.append(self.labelled_field())
        self.take("}")
        for f in m.fields:  # behind those that are written as such
            if f.is_optional:
                f.oneof = len(m.oneofs)
                m.oneofs.append(f"_{f.name}")
        return m

    def labelled_field(self):
        label = self.take() if self.tokens[0] in ("optional", "repeated") else None
        f = self.plain_field()
        f.label = REPEATED if label == "repeated" else OPTIONAL
        f.is_optional = label == "optional"
        return f

    def plain_field(self, oneof=None):
        kind, name = self.take(), self.take()
        self.take("=")
        f = Field(name, int(self.take()), kind, oneof=oneof)
        self.take(";")
        return f

    def map(self, m):
        self.take("map")
        self.take("<")
        key = self.take()
        self.take(",")
        value = self.take()
        self.take(">")
        name = self.take()
        self.take("=")
        entry = Message(camel("_" + name) + "Entry", is_entry=True)
        entry.fields = [Field("key", 1, key), Field("value", 2, value)]
        m.messages.append(entry)
        m.fields.append(Field(name, int(self.take()), entry.name, REPEATED))
        self.take(";")

    def enum(self):
        name, values = self.take(), []
        self.take("{")
        while self.tokens[0] != "}":
            value = self.take()
            self.take("=")
            values.append((value, int(self.take())))
            self.take(";")
        self.take("}")
        return name, values

    def service(self):
        name, methods = self.take(), []
        self.take("{")
        while self.tokens[0] != "}":
            self.take("rpc")
            method, asked = self.take(), self.side()
            self.take("returns")
            methods.append((method, asked, self.side()))
            self.take(";")
        self.take("}")
        return name, methods

    def side(self):
        """(the message, is it a stream?)"""
        self.take("(")
        is_stream = self.tokens[0] == "stream"
        if is_stream:
            self.take()
        message = self.take()
        self.take(")")
        return message, is_stream

    # ---- names ----

    def types(self):
        """{full name: MESSAGE or ENUM} of all that is declared here."""
        found = {}

        def add(scope, messages, enums):
            for name, _ in enums:
                found[f"{scope}.{name}"] = ENUM
            for m in messages:
                found[f"{scope}.{m.name}"] = MESSAGE
                add(f"{scope}.{m.name}", m.messages, m.enums)

        add(self.package, self.messages, self.enums)
        return found

    def symbols(self):
        return [*self.types(), *(f"{self.package}.{name}" for name, _ in self.services),
                *(f"{self.package}.{name}.{method}" for name, methods in self.services for method, _, _ in methods)]

    # ---- writing ----

    def descriptor(self, types):
        """A FileDescriptorProto; `types` are those of all files."""
        out = field(1, self.name) + field(2, self.package)
        out += b"".join(field(3, name) for name in self.imports)
        out += b"".join(field(4, self.write_message(m, f"{self.package}.{m.name}", types)) for m in self.messages)
        out += b"".join(field(5, write_enum(enum)) for enum in self.enums)
        out += b"".join(field(6, self.write_service(s, types)) for s in self.services)
        return out + field(12, "proto3")

    def resolve(self, name, scope, types):
        """The full name of a type that is called so in a scope: the innermost that has it."""
        while scope and f"{scope}.{name}" not in types:
            scope = scope.rpartition(".")[0]
        full = f"{scope}.{name}" if scope else name
        if full not in types:
            raise SyntaxError(f"{self.name}: there is no type {name}")
        return full

    def write_message(self, m, scope, types):
        out = field(1, m.name)
        for f in m.fields:
            data = field(1, f.name) + field(3, f.number) + field(4, f.label)
            if f.kind in SCALARS:
                data += field(5, SCALARS[f.kind])
            else:
                full = self.resolve(f.kind, scope, types)
                data += field(5, types[full]) + field(6, "." + full)
            if f.oneof is not None:
                data += field(9, f.oneof)
            data += field(10, camel(f.name))
            if f.is_optional:
                data += field(17, 1)
            out += field(2, data)
        out += b"".join(field(3, self.write_message(inner, f"{scope}.{inner.name}", types)) for inner in m.messages)
        out += b"".join(field(4, write_enum(enum)) for enum in m.enums)
        if m.is_entry:
            out += field(7, field(7, 1))
        return out + b"".join(field(8, field(1, name)) for name in m.oneofs)

    def write_service(self, service, types):
        name, methods = service
        out = field(1, name)
        for method, (asked, asks_often), (told, tells_often) in methods:
            data = field(1, method)
            data += b"".join(field(number, "." + self.resolve(message, self.package, types))
                             for number, message in ((2, asked), (3, told)))
            data += (field(5, 1) if asks_often else b"") + (field(6, 1) if tells_often else b"")
            out += field(2, data)
        return out


def write_enum(enum):
    name, values = enum
    return field(1, name) + b"".join(field(2, field(1, value) + field(2, number)) for value, number in values)


def read(root):
    """[(file, its descriptor, the indices of all files that it needs, itself first)] of a folder."""
    files = [File(str(path.relative_to(root)), path.read_text(encoding="utf-8"))
             for path in sorted(root.rglob("*.proto"))]
    types = {name: kind for file in files for name, kind in file.types().items()}
    index = {file.name: i for i, file in enumerate(files)}

    def needed(i, found):
        if i not in found:
            found.append(i)
            for name in files[i].imports:
                needed(index[name], found)
        return found

    return [(file, file.descriptor(types), needed(i, [])) for i, file in enumerate(files)]
