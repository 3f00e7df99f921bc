import type { Catalog } from "./catalog.ts";
import { FileFault } from "./contained.ts";
import type { Layer } from "./load.ts";
import { isUsable } from "./resolve.ts";

/** The name of the agent when HUB_AGENT is not set. */
export const defaultAgentName = "default";

const profileName = "code";

/**
 * What the agent `default` is made of: the profile `code`, as it is here. The text that the bundled one adds to the system
 * prompt is left out: it speaks of a branch and of nobody being there, and a chat has neither.
 * @throws FileFault
 */
export const defaultLayers = (catalog: Catalog): Layer[] => {
  const entry = catalog.get(profileName);
  if (entry === undefined || !isUsable(entry)) {
    const fault = entry === undefined ? "it is missing" : entry.profile.error;
    throw new FileFault(`it is made of the profile ${profileName}, which cannot be used: ${fault}`);
  }
  return entry.chain.map((layer) =>
    layer.candidate.root.label === "bundled"
      ? {
          ...layer,
          definition: {
            ...layer.definition,
            claude: { ...layer.definition.claude, append_system_prompt: null },
          },
        }
      : layer,
  );
};
