const everyMilliseconds = 10_000;

/**
 * Says what npm waits for, out of the lines of `--loglevel=http`: a refusal at once, then every ten seconds how far it is.
 * npm by itself is silent, and tries for ten minutes before it gives up.
 *
 * @param {(line: string) => void} say
 * @param {(cause: string) => string} cure Returns what a user can do about a refusal, or an empty text.
 */
export const npmProgress = (say, cure) => {
  const begin = Date.now();
  let answers = 0;
  let refusals = 0;
  let unfinished = "";
  const readLine = (line) => {
    if (/^npm http (fetch \w+ \d{3} |cache )/.test(line)) answers += 1;
    const [, what, cause] = /^npm http fetch (.*) attempt \d+ failed with (\S+)/.exec(line) ?? [];
    if (what === undefined) return;
    refusals += 1;
    if (refusals > 1) return;
    say(
      `  npm could not fetch ${what.replace(/^GET /, "")} (${cause}), and tries again … ${cure(cause)}`.trimEnd(),
    );
  };
  const timer = setInterval(() => {
    const failed = refusals === 0 ? "" : `, ${refusals} tries failed`;
    say(
      `  … ${Math.round((Date.now() - begin) / 1000)} s: ${answers} answers of the package registry${failed}`,
    );
  }, everyMilliseconds);
  return {
    read: (chunk) => {
      const lines = (unfinished + chunk).split("\n");
      unfinished = lines.pop() ?? "";
      lines.forEach(readLine);
    },
    end: () => clearInterval(timer),
  };
};
