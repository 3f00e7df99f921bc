import type { Revision } from "./suite.ts";

/**
 * Checks of the official suite that fail, as `scenario:check-id`, with the reason. A check that passes must be removed
 * from here; a new one needs a lasting reason.
 */
type Exceptions = Record<Revision, Record<string, string>>;

const asksBack =
  "the server asks the client in the middle of a call, on a connection that a stateless server does not have";
const session = "about sessions, which a stateless server does not have and the protocol does not require";

/** For the service's HTTP layer with the suite's own tools. */
export const fixtureExceptions: Exceptions = {
  "2025-11-25": {
    "tools-call-sampling:tools-call-sampling": asksBack,
    "tools-call-elicitation:tools-call-elicitation": asksBack,
    "elicitation-sep1034-defaults:elicitation-sep1034-general": asksBack,
    "elicitation-sep1330-enums:elicitation-sep1330-general": asksBack,
    "server-sse-multiple-streams:server-sse-multiple-streams-session": session,
    "server-session-lifecycle:untried": session,
    "server-sse-polling:server-sse-polling-session": session,
  },
  "2026-07-28": {},
};

/** The scenarios that try a server without tools of the suite's own. */
export const withoutFixture: Record<Revision, readonly string[]> = {
  "2025-11-25": [
    "server-initialize",
    "logging-set-level",
    "ping",
    "tools-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
    "server-session-lifecycle",
  ],
  "2026-07-28": [
    "server-stateless",
    "tools-list",
    "server-sse-multiple-streams",
    "sep-2164-resource-not-found",
    "dns-rebinding-protection",
    "caching",
    "http-header-validation",
    "input-required-result-unsupported-methods",
  ],
};

const toolOfTheSuite = "can only be tried with a tool of the suite's own, see the fixture";
const noPrompts = "there are no prompts, and the capabilities say so";
const noResources = "there are no resources, and the capabilities say so: the method does not exist";

/** Of the service itself. */
export const productExceptions: Exceptions = {
  "2025-11-25": {
    "logging-set-level:logging-set-level": "it sends no log messages, and the capabilities say so",
    "server-sse-multiple-streams:server-sse-multiple-streams-session": session,
    "server-session-lifecycle:untried": session,
  },
  "2026-07-28": {
    "server-stateless:sep-2575-http-server-no-independent-requests-on-stream": toolOfTheSuite,
    "server-stateless:sep-2575-missing-capability-http-400": toolOfTheSuite,
    "server-stateless:sep-2575-server-no-log-without-loglevel": toolOfTheSuite,
    "server-stateless:sep-2575-server-rejects-undeclared-capability": toolOfTheSuite,
    "sep-2164-resource-not-found:sep-2164-error-code": noResources,
    "sep-2164-resource-not-found:sep-2164-data-uri": noResources,
    "caching:sep-2549-prompts-list-caching-hints": noPrompts,
    "caching:sep-2549-resources-list-caching-hints": noResources,
    "caching:sep-2549-resources-templates-list-caching-hints": noResources,
  },
};
