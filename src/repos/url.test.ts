import fc from "fast-check";
import { expect, test } from "vitest";
import { parseRepoUrl } from "../contract/repository-url.ts";
import { repoKey } from "./url.ts";

const parse = (url: string): string => parseRepoUrl(url, { allowLocal: true });

const host = fc.domain().filter((name) => /^[a-z0-9.-]+$/.test(name));
const segment = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_-]{0,20}$/);
const path = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));
const hosted = fc.oneof(
  fc.tuple(host, path).map(([name, rest]) => `https://${name}/${rest}`),
  fc.tuple(host, path).map(([name, rest]) => `ssh://git@${name}/${rest}`),
  fc.tuple(host, path).map(([name, rest]) => `git@${name}:${rest}`),
);

test("the key is the same with .git or a slash at the end and whatever the case of the host, and of 12 hex digits", () => {
  fc.assert(
    fc.property(hosted, (url) => {
      const key = repoKey(parse(url));
      expect(key).toMatch(/^[0-9a-f]{12}$/);
      expect(repoKey(parse(`${url}.git`))).toBe(key);
      expect(repoKey(parse(`${url}/`))).toBe(key);
      expect(repoKey(parse(`${url}.git/`))).toBe(key);
      const shouted = url.replace(
        /^(https:\/\/|ssh:\/\/git@|git@)([^/:]+)/,
        (_all, start: string, name: string) => start + name.toUpperCase(),
      );
      expect(repoKey(parse(shouted))).toBe(key);
    }),
  );
});

test("of two local paths, with and without .git, each has a key of its own: both may exist", () => {
  for (const path of ["/a/app", "file:///a/app"]) {
    expect(repoKey(parse(`${path}.git`))).not.toBe(repoKey(parse(path)));
    expect(repoKey(parse(`${path}/`))).toBe(repoKey(parse(path)));
  }
});
