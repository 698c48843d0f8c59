// csv.js - what a table shows, as a file.
import { button } from "./dom.js";

const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

// A text that a spreadsheet would take for a formula is kept a text.
const safe = (text) => (/^[=+@-]/.test(text) && !/^-?[\d.,]+$/.test(text) ? `'${text}` : text);

export function csvButton(name, table) {
  return button("CSV", () => {
    const text = table.texts().map((row) => row.map((cell) => quoted(safe(cell))).join(",")).join("\r\n");
    const file = URL.createObjectURL(new Blob([text, "\r\n"], { type: "text/csv" }));
    Object.assign(document.createElement("a"), { href: file, download: `weir-${name}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(file), 1000);
  }, { class: "small", "aria-label": `CSV of ${table.caption}` });
}
