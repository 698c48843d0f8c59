/* reference.mjs - writes docs/javascript-reference.md: what each entry of the package exports, as its
 * types say.
 *
 *   node reference.mjs DIST > docs/javascript-reference.md     TypeScript is in $NODE_MODULES */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const here = path.dirname(fileURLToPath(import.meta.url))
const modules = process.env.NODE_MODULES ?? path.join(here, 'node_modules')
const ts = createRequire(pathToFileURL(path.join(path.resolve(modules), 'x')))('typescript')
const { exports } = JSON.parse(readFileSync(path.join(here, 'package.json'), 'utf8'))

const dist = path.resolve(process.argv[2])
const entries = Object.entries(exports)
  .filter(([, places]) => places.import)
  .map(([name, places]) => [
    name.replace('.', 'weir-client'),
    path.join(dist, places.import.replace('./dist/', '').replace(/js$/, 'd.ts')),
  ])
const program = ts.createProgram(
  entries.map(([, file]) => file),
  { module: ts.ModuleKind.NodeNext, types: [], skipLibCheck: true, target: ts.ScriptTarget.ES2022 },
)
const checker = program.getTypeChecker()
const told = new Map()

/** With its comment, and without the words that only files need. */
function text(declaration) {
  const node = ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration
  return node.getFullText().trim().replace(/^export /m, '').replace(/^declare /m, '')
}

console.log(`# JavaScript: reference

What each entry of \`weir-client\` exports, written from its types by \`clients/js/reference.mjs\`. [javascript.md](javascript.md) says how
to use it.`)
for (const [name, file] of entries) {
  const own = []
  const elsewhere = []
  for (const exported of checker.getExportsOfModule(
    checker.getSymbolAtLocation(program.getSourceFile(file)),
  )) {
    const symbol =
      exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported
    if (told.has(symbol)) elsewhere.push(`\`${exported.name}\` of ${told.get(symbol)}`)
    else {
      told.set(symbol, name)
      own.push(...symbol.declarations.map(text))
    }
  }
  console.log(`\n## ${name}\n`)
  if (own.length) console.log(`\`\`\`ts\n${own.join('\n\n')}\n\`\`\``)
  if (elsewhere.length) console.log(`${own.length ? '\n' : ''}Also ${elsewhere.join(', ')}.`)
}
