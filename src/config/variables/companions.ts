import { gitUrl, optionalPath, profileName, seconds, text } from "../formats.ts";
import { variable } from "../variable.ts";

const interval = (name: string, what: string) =>
  variable(name, seconds, "300", {
    meaning: `Seconds between two fetches of ${what}; 0: only at start and on demand`,
  });

/** Companion repositories: an organisation's profiles and agents. */
export const companionVariables = {
  hooksPath: variable("SERVICE_HOOKS_PATH", optionalPath, null, {
    meaning: "Checkout of the hook package, used as it is; wins over SERVICE_HOOKS_URL",
  }),
  hooksUrl: variable("SERVICE_HOOKS_URL", gitUrl.nullable(), null, {
    meaning: "Git URL of the hook package; fetched once at start",
  }),
  hooksBranch: variable("SERVICE_HOOKS_BRANCH", text, "", {
    meaning: "Branch or tag of SERVICE_HOOKS_URL; empty: its default branch",
  }),
  hooksProfile: variable("HOOKS_PROFILE", profileName, "coding", {
    meaning: "Profile of the hook package that is the default when SERVICE_DEFAULT_PROFILE is not set",
    fallbacks: ["SERVICE_HOOKS_PROFILE"],
  }),
  bundleUrl: variable("SERVICE_HOOKS_BUNDLE_URL", gitUrl.nullable(), null, {
    meaning: "Git URL of the content repository",
  }),
  bundleSyncInterval: interval("SERVICE_HOOKS_BUNDLE_SYNC_INTERVAL", "the content repository"),
  hubPath: variable("SERVICE_HUB_PATH", optionalPath, null, {
    meaning: "Checkout of the agent hub, used as it is; wins over SERVICE_HUB_URL",
  }),
  hubDir: variable("HUB_DIR", optionalPath, null, {
    meaning:
      "Directory with the `agents/` that `svc agents` shows; unset: the agent hub of SERVICE_HUB_PATH or SERVICE_HUB_URL",
  }),
  hubUrl: variable("SERVICE_HUB_URL", gitUrl.nullable(), null, { meaning: "Git URL of the agent hub" }),
  hubSyncInterval: interval("SERVICE_HUB_SYNC_INTERVAL", "the agent hub"),
};
