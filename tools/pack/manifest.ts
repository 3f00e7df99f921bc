/** What of package.json is published: what npm needs to install and show the package, and nothing it would act on. */
const published = [
  "name",
  "version",
  "description",
  "keywords",
  "license",
  "author",
  "homepage",
  "repository",
  "bugs",
  "type",
  "engines",
  "bin",
  "man",
  "files",
];

/** The published package.json for the text of the repository's: no dependencies of any kind, no scripts. */
export const publishedManifest = (text: string): string => {
  const manifest = JSON.parse(text) as Record<string, unknown>;
  const kept = published.flatMap((key) => (key in manifest ? [[key, manifest[key]] as const] : []));
  return `${JSON.stringify(Object.fromEntries(kept), null, 2)}\n`;
};
