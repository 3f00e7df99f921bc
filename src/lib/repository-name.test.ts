import { expect, test } from "vitest";
import { repositoryName } from "./repository-name.ts";

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
  ["https://[::1]:8443/a/b", "[::1]/a/b"],
  ["git@[::1]:a/b", "[::1]/a/b"],
  ["/srv/App.git/", "/srv/App.git"],
  ["file:///srv/App", "/srv/App"],
  ["/", "/"],
  ["", ""],
])("%j is %j", (url, name) => expect(repositoryName(url)).toBe(name));
