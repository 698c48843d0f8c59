"""picture.py - bar charts as SVG, written by hand."""
from html import escape

WIDTH, COLUMNS, MARGIN, GAP = 960, 2, 24, 32
LABELS, VALUES, BAR, STEP, TITLE = 130, 60, 16, 22, 40


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def chart(left, top, title, unit, rows):
    """One title over bars with a name and a value each; those of weir stand out."""
    width = (WIDTH - 2 * MARGIN - GAP) / COLUMNS - LABELS - VALUES
    most = max(value for _, value in rows)
    out = [f'<text x="{left}" y="{top + 16}" class="title">{escape(title)}</text>',
           f'<text x="{left + LABELS + width + VALUES}" y="{top + 16}" class="unit">'
           f'{escape(unit)}</text>']
    for i, (name, value) in enumerate(rows):
        y = top + TITLE - 10 + i * STEP
        long = max(1.0, width * value / most)
        kind = "weir" if name.startswith("weir") else "other"
        out.append(f'<text x="{left + LABELS - 8}" y="{y + 12}" class="name">{escape(name)}</text>'
                   f'<rect x="{left + LABELS}" y="{y}" width="{long:.1f}" height="{BAR}" '
                   f'class="{kind}"/>'
                   f'<text x="{left + LABELS + long + 6:.1f}" y="{y + 12}">{number(value)}</text>')
    return out


def bars(heading, charts):
    """charts: (title, unit, [(name, value), ...]), two in a row."""
    body, top = [], MARGIN + 28
    for i in range(0, len(charts), COLUMNS):
        row = charts[i:i + COLUMNS]
        for j, (title, unit, rows) in enumerate(row):
            left = MARGIN + j * ((WIDTH - 2 * MARGIN - GAP) / COLUMNS + GAP)
            body += chart(left, top, title, unit, rows)
        top += TITLE + max(len(rows) for _, _, rows in row) * STEP + 16
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" '
        f'height="{top}" font-family="sans-serif" font-size="12">',
        "<style>.title{font-weight:bold}.unit{text-anchor:end;fill:#666}.name{text-anchor:end}"
        ".weir{fill:#1f6f8b}.other{fill:#b8c4c9}</style>",
        f'<rect width="{WIDTH}" height="{top}" fill="#fff"/>',
        f'<text x="{MARGIN}" y="{MARGIN + 4}" font-size="15">{escape(heading)}</text>',
        *body, "</svg>", ""])
