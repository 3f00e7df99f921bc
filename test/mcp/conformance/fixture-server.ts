import {
  McpServer,
  createRequestStateCodec,
  type RequestStateCodec,
  type ServerEvent,
} from "@modelcontextprotocol/server";
import { registerContentTools, registerResources, registerSchemaTools } from "./fixture-content.ts";
import { registerPrompts } from "./fixture-prompts.ts";
import { registerAskingTools, registerRoundTools } from "./fixture-asking.ts";

type RoundState = { step: number };

export type Fixture = {
  server: McpServer;
  /** Seals what a tool remembers between two rounds of questions. */
  codec: RequestStateCodec<RoundState>;
  /** Tells those who listen that a list has changed. */
  publish: (event: ServerEvent) => void;
};

/**
 * A server that has everything the conformance suite asks for by name, so that the suite can try the whole of our HTTP
 * layer: the descriptions of the suite's scenarios define its names and answers.
 */
export const createFixtureFactory = (publish: Fixture["publish"]): (() => McpServer) => {
  const codec = createRequestStateCodec<RoundState>({ key: "a key of the test, of at least 32 bytes" });
  return () => {
    const server = new McpServer(
      { name: "conformance-fixture", version: "1.0.0" },
      {
        capabilities: {
          tools: { listChanged: true },
          prompts: { listChanged: true },
          resources: { subscribe: true, listChanged: true },
          logging: {},
          completions: {},
        },
        requestState: { verify: (state, context) => codec.verify(state, context) },
      },
    );
    const fixture: Fixture = { server, codec, publish };
    registerContentTools(fixture);
    registerAskingTools(fixture);
    registerRoundTools(fixture);
    registerSchemaTools(fixture);
    registerPrompts(fixture);
    registerResources(fixture);
    return server;
  };
};
