import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  type McpServer,
  type Resource,
  type ResourceTemplateType,
} from "@modelcontextprotocol/server";
import { ServiceError } from "../contract/errors.ts";
import type { Caller } from "./server.ts";

/** What a program offers to read besides its tools. */
export type McpResources = {
  templates: readonly ResourceTemplateType[];
  /** What a caller with limited rights needs. */
  scope: string;
  /** @throws ServiceError invalid_request for a cursor that is none */
  list: (cursor: string) => { resources: Resource[]; nextCursor: string | null };
  /** Null: there is no such resource. */
  read: (uri: string, principal: string) => { mimeType: string; text: string } | null;
};

/** Offers a program's resources to a caller. */
export const registerResources = ({ server }: McpServer, resources: McpResources, caller: Caller): void => {
  const { templates, scope, list, read } = resources;
  const allowed = <Value>(work: () => Value): Value => {
    if (caller.scopes !== null && !caller.scopes.includes(scope))
      throw new ProtocolError(
        ProtocolErrorCode.InvalidRequest,
        `Resources need the scope ${scope}; ask for it when you sign in`,
      );
    try {
      return work();
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, error.message);
    }
  };
  server.registerCapabilities({ resources: {} });
  server.setRequestHandler("resources/templates/list", () => ({ resourceTemplates: [...templates] }));
  server.setRequestHandler("resources/list", ({ params }) =>
    allowed(() => {
      const page = list(params?.cursor ?? "");
      return { resources: page.resources, ...(page.nextCursor !== null && { nextCursor: page.nextCursor }) };
    }),
  );
  server.setRequestHandler("resources/read", ({ params: { uri } }) =>
    allowed(() => {
      const content = read(uri, caller.principal);
      if (content === null) throw new ResourceNotFoundError(uri.slice(0, 500));
      return { contents: [{ uri, ...content }] };
    }),
  );
};
