/* validate.mjs - do these objects of Kubernetes fit its schemas?
 *
 *   validate.mjs NODE_MODULES <OBJECTS.json      a list of objects
 *
 * The compiled schemas say what is missing or of the wrong kind. They let unknown members pass, as
 * those of the API do, so a typing error would be silence: the compiler of TypeScript finds those. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const modules = resolve(process.argv[2]);
const objects = JSON.parse(readFileSync(0, "utf8"));
let wrong = 0;

function pathOf({ apiVersion, kind }) {
  const group = apiVersion.startsWith("monitoring.coreos.com/") ? "@kubernetes-models/prometheus-operator" : "kubernetes-models";
  return `${group}/${apiVersion}/${kind}`;
}

const folder = mkdtempSync(join(modules, "..", "objects-"));
const files = [];
for (const object of objects) {
  const name = `${object.kind} ${object.metadata.name}`;
  const file = join(modules, `${pathOf(object)}.js`);
  if (!existsSync(file)) {
    console.log(`${name}: there is no ${object.apiVersion} ${object.kind}`);
    wrong++;
    continue;
  }
  const { [object.kind]: Model } = await import(pathToFileURL(file));
  try {
    new Model(object).validate();
  } catch (error) {
    console.log(`${name}: ${error.message}`);
    wrong++;
  }
  const typed = join(folder, `${files.length}.ts`);
  writeFileSync(typed, `import type { I${object.kind} } from "${pathOf(object)}";\n` +
    `export const object: I${object.kind} = ${JSON.stringify(object, null, 1)};\n`);
  files.push({ typed, name });
}
try {
  execFileSync(process.execPath, [join(modules, "typescript/bin/tsc"), "--noEmit", "--strict", "--skipLibCheck",
    "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", ...files.map((f) => f.typed)],
    { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
} catch (error) {
  for (const line of error.stdout.split("\n").filter((l) => l.includes("error TS")))
    console.log(line.replace(/^(.*\/)?(\d+)\.ts\((\d+),\d+\): error TS\d+/, (_, __, i, at) =>
      `${files[i].name} (line ${at} of its JSON)`));
  wrong++;
}
rmSync(folder, { recursive: true });
console.log(wrong ? "" : `${objects.length} objects fit the schemas`);
process.exitCode = wrong ? 1 : 0;
