/** Newer syntax would not even parse on an older Node: import the program only after this check. */
const required = 24;

/** Whether this Node can run the program; if not, says so. */
export const isNodeRecent = (name: string): boolean => {
  const [major] = process.versions.node.split(".");
  if (Number(major) >= required) return true;
  process.stderr.write(
    `${name}: needs Node.js ${required} or later, and this is ${process.versions.node} (${process.execPath}): install a newer one, or put it first on PATH\n`,
  );
  return false;
};
