import fc from "fast-check";
import { expect, test } from "vitest";
import { ServiceError } from "./errors.ts";
import { isCalled, onGitHost, parseRepoUrl, repositoryName, takesToken } from "./repository-url.ts";

test.for([
  [
    "https://github.com/acme/app.git",
    ["acme/app", "github.com/acme/app", "git@github.com:acme/app", "app"],
    true,
  ],
  [
    "https://localhost:3000/acme/app",
    ["localhost:3000/acme/app", "https://localhost:3000/acme/app.git"],
    true,
  ],
  ["/srv/repos/app", ["/srv/repos/app", "repos/app", "file:///srv/repos/app"], true],
  ["https://github.com/acme/app", ["me/app", "acme", "github.com:1/acme/app", "/acme/app"], false],
] as const)("%s is called %j: %s", ([url, names, isSo]) => {
  for (const name of names) expect([name, isCalled(url, name)]).toEqual([name, isSo]);
});

const parse = (url: string): string => parseRepoUrl(url, { allowLocal: true });

test.for([
  ["https://GitHub.com:443/acme/App.git/", "https://github.com/acme/App.git"],
  ["HTTPS://github.com/acme/app//", "https://github.com/acme/app"],
  ["https://github.com//acme///%61pp%2Fx%2egit", "https://github.com/acme/app%2Fx.git"],
  ["git@github.com:acme//app.git", "git@github.com:acme/app.git"],
  ["https://git.example:8443/a/b/c", "https://git.example:8443/a/b/c"],
  ["ssh://git@Host:22/a/b", "ssh://git@host/a/b"],
  ["ssh://git@host:2222/a/b", "ssh://git@host:2222/a/b"],
  ["git@GitHub.com:acme/app.git", "git@github.com:acme/app.git"],
  ["http://127.0.0.1:8080/x", "http://127.0.0.1:8080/x"],
  ["http://localhost/x", "http://localhost/x"],
  ["/srv//repos/../repos/app.git/", "/srv/repos/app.git"],
  ["file:///srv/app.git/", "file:///srv/app.git"],
  ["", ""],
])("%s is taken as %s", ([url, normal]) => {
  expect(parse(url ?? "")).toBe(normal);
});

test.for([
  ["ext::sh -c id", "white space"],
  ["ext::sh", "helper program"],
  ["--upload-pack=touch", "begins with a dash"],
  ["ssh://-oProxyCommand=touch/x", "host name"],
  ["ssh://git@-x/y", "host name"],
  ["git@-oProxyCommand:x", "is not a URL"],
  ["git@host:-x", "begins with a dash"],
  ["https://user:pass@host/x", "carries credentials"],
  ["https://token@host/x", "carries credentials"],
  ["ssh://git:pass@host/x", "carries credentials"],
  ["user:pass@host:x", "carries credentials"],
  ["https://host/x?access_token=hunter2", "query"],
  ["https://host/x\u0000", "control character"],
  ["https://host/a b", "white space"],
  ["https://host/a\nb", "white space"],
  ["https:\\\\host\\x", "backslash"],
  ["http://example.org/x", "uses http"],
  ["git://host/x", "uses git://"],
  ["ftp://host/x", "uses ftp://"],
  ["github.com/acme/app", "is not a URL"],
  ["https://github.com", "names no repository"],
  ["https://github.com/", "names no repository"],
  ["file://host/x", "has a host"],
  ["/", "names no repository"],
])("%j is refused, and the message says why and what to use instead", ([url = "", why = ""]) => {
  const error = thrownBy(() => parse(url));
  expect(error).toMatchObject({ code: "invalid_repo_url" });
  expect(error?.message).toContain(why);
  expect(error?.message).toContain("Use https://host/owner/name");
  expect(error?.message).not.toMatch(/hunter2|pass@|token@|\0/);
});

test("local repositories are refused unless they are allowed", () => {
  for (const url of [
    "/srv/app.git",
    "file:///srv/app.git",
    "http://127.0.0.1/a",
    "http://localhost:8080/a/b",
    "http://[::1]:1/a",
    "HTTP://127.1/a",
    "http://2130706433/a",
  ]) {
    const error = thrownBy(() => parseRepoUrl(url, { allowLocal: false }));
    expect(error?.message).toContain("SERVICE_ALLOW_LOCAL_REPOS");
  }
});

const host = fc.domain().filter((name) => /^[a-z0-9.-]+$/.test(name));
const segment = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_-]{0,20}$/);
const path = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));
const hosted = fc.oneof(
  fc.tuple(host, path).map(([name, rest]) => `https://${name}/${rest}`),
  fc.tuple(host, path).map(([name, rest]) => `ssh://git@${name}/${rest}`),
  fc.tuple(host, path).map(([name, rest]) => `git@${name}:${rest}`),
);
const wellFormed = fc.oneof(
  hosted,
  path.map((rest) => `/${rest}`),
  path.map((rest) => `file:///${rest}`),
);

test("a normalised URL stays as it is", () => {
  fc.assert(
    fc.property(wellFormed, (url) => {
      expect(parse(parse(url))).toBe(parse(url));
    }),
  );
});

test("whatever is given, either the result is a URL that is neither an option nor a helper for git, or a refusal", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.webUrl({ withQueryParameters: true }),
        fc.string().map((text) => `https://${text}`),
      ),
      (text) => {
        const error = thrownBy(() => {
          const url = parse(text);
          expect(url).not.toMatch(/^-|^[a-z0-9+.-]+::|[\s\0]/i);
          expect(
            url === "" ||
              /^(https:\/\/|http:\/\/(localhost|127\.0\.0\.1|\[::1\])[:/]|ssh:\/\/|file:\/\/\/|\/|[\w.-]+@)/.test(
                url,
              ),
          ).toBe(true);
        });
        expect(error === null || error instanceof ServiceError).toBe(true);
      },
    ),
    { numRuns: 1000 },
  );
});

test("owner and name are read from URLs of the git host only", () => {
  expect(onGitHost("https://github.com/acme/my.app.git", "github.com")).toEqual({
    host: "github.com",
    owner: "acme",
    name: "my.app",
  });
  expect(onGitHost("git@github.com:acme/app", "github.com")).toMatchObject({ owner: "acme", name: "app" });
  expect(onGitHost("ssh://git@ghe.example:2222/acme/app", "ghe.example:8443")).toMatchObject({
    host: "ghe.example:8443",
    owner: "acme",
  });
  expect(onGitHost("https://evil.example/github.com/app", "github.com")).toBeNull();
  expect(onGitHost("https://github.com.evil.example/acme/app", "github.com")).toBeNull();
  expect(onGitHost("https://github.com/a/b/c", "github.com")).toBeNull();
  expect(onGitHost("/github.com/acme/app", "github.com")).toBeNull();
});

test("only https to exactly the git host takes a token", () => {
  expect(takesToken("https://github.com/a/b", "github.com")).toBe(true);
  expect(takesToken("https://ghe.example:8443/a/b", "ghe.example:8443")).toBe(true);
  for (const url of "https://ghe.example/a/b https://x.github.com/a/b http://localhost/a git@github.com:a/b /github.com/a".split(
    " ",
  )) {
    expect(takesToken(url, "github.com")).toBe(false);
  }
});

test.each([
  "https://github.com/acme/app",
  "https://GitHub.com/Acme/App.git/",
  "ssh://git@github.com/acme/app.git",
  "ssh://git@github.com:22/acme/app",
  "git@github.com:acme/app.git",
  "git@github.com:/acme/app",
  "github.com/acme/app",
])("%s is github.com/acme/app", (url) => expect(repositoryName(url)).toBe("github.com/acme/app"));

test.each([
  ["git@host:123/app", "host/123/app"],
  ["https://[::1]:8443/a/b", "[::1]:8443/a/b"],
  ["https://Host:443/a/b", "host/a/b"],
  ["http://127.0.0.1:80/a", "127.0.0.1/a"],
  ["ssh://git@host:2222/a/b", "host:2222/a/b"],
  ["ssh://git@ssh.host:443/a/b", "ssh.host:443/a/b"],
  ["host:9999/a/b", "host:9999/a/b"],
  ["host:a/b", "host/a/b"],
  ["/srv/app///", "/srv/app"],
  ["git@[::1]:a/b", "[::1]/a/b"],
  ["/srv/App.git/", "/srv/App.git"],
  ["file:///srv/App", "/srv/App"],
  ["/", "/"],
  ["", ""],
])("%j is %j", (url, name) => expect(repositoryName(url)).toBe(name));

const thrownBy = (action: () => void): Error | null => {
  try {
    action();
    return null;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
};
