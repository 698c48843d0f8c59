/* build.mjs - compiles the package: ESM with types into FOLDER, CommonJS with types into
 * FOLDER/cjs.
 *
 *   node build.mjs FOLDER      TypeScript is found in node_modules here, or in $NODE_MODULES */
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const here = path.dirname(fileURLToPath(import.meta.url))
const modules = process.env.NODE_MODULES ?? path.join(here, 'node_modules')
const out = path.resolve(process.argv[2] ?? 'dist')

function compile(folder, ...more) {
  execFileSync(
    process.execPath,
    [
      path.join(modules, 'typescript/bin/tsc'),
      '-p',
      here,
      '--outDir',
      folder,
      '--typeRoots',
      path.join(modules, '@types'),
      ...more,
    ],
    { stdio: 'inherit' },
  )
}

rmSync(out, { recursive: true, force: true })
mkdirSync(path.join(out, 'cjs'), { recursive: true })
compile(out)
compile(
  path.join(out, 'cjs'),
  '--module',
  'commonjs',
  '--moduleResolution',
  'node10',
  '--ignoreDeprecations',
  '5.0',
)
writeFileSync(path.join(out, 'cjs/package.json'), '{"type":"commonjs"}\n')
