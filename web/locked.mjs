// Compares what npm has installed with package-lock.json: another version, another hash or a package that is not in the lock is an error.
import { readFileSync } from "node:fs";

const packages = (file) => JSON.parse(readFileSync(new URL(file, import.meta.url), "utf8")).packages;
const wanted = packages("./package-lock.json");
const wrong = Object.entries(packages("./node_modules/.package-lock.json")).filter(
  ([path, { version, integrity }]) => version !== wanted[path]?.version || !integrity || integrity !== wanted[path]?.integrity,
);
for (const [path, { version }] of wrong) {
  console.error(`web: npm installed ${path} ${version}, and package-lock.json has ${wanted[path]?.version ?? "no such package"}, or another hash`);
}
process.exit(wrong.length > 0 ? 1 : 0);
