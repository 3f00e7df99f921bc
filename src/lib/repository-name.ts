/**
 * A repository's name, the same for each spelling of its URL: `github.com/acme/app`. A path stays one, with its `.git`: `/a/app`
 * and `/a/app.git` may be two repositories.
 */
export const repositoryName = (url: string): string => {
  const path = url.replace(/^file:\/\//, "").replace(/(?<=.)\/+$/, "");
  if (path.startsWith("/")) return path;
  const [, scheme, address = path] = /^([a-z][a-z0-9+.-]*:\/\/)?(?:[^/@]*@)?(.*)$/i.exec(path) ?? [];
  // After a scheme the colon is before a port, otherwise before the path.
  const named =
    scheme === undefined
      ? address.replace(/^(\[[^\]]*\]|[^:/]+):\/?/, "$1/")
      : address.replace(/^([^/]*?):\d+(?=\/)/, "$1");
  return named.replace(/\.git$/, "").toLowerCase();
};
