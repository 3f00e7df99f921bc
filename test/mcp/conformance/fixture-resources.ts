import { ResourceTemplate } from "@modelcontextprotocol/server";
import type { Fixture } from "./fixture-server.ts";
import { redPixel } from "./samples.ts";

export const registerResources = ({ server }: Fixture): void => {
  const plain = (name: string, uri: string, content: string) =>
    server.registerResource(name, uri, { description: name, mimeType: "text/plain" }, () => ({
      contents: [{ uri, mimeType: "text/plain", text: content }],
    }));
  plain("Static text", "test://static-text", "This is the content of the static text resource.");
  plain("Watched resource", "test://watched-resource", "Watched");
  server.registerResource(
    "Static binary",
    "test://static-binary",
    { description: "Static binary", mimeType: "image/png" },
    ({ href }) => ({ contents: [{ uri: href, mimeType: "image/png", blob: redPixel }] }),
  );
  server.registerResource(
    "Template",
    new ResourceTemplate("test://template/{id}/data", { list: undefined }),
    { description: "Data by its id", mimeType: "application/json" },
    ({ href }, { id }) => {
      const data = { id, templateTest: true, data: `Data for ID: ${String(id)}` };
      return { contents: [{ uri: href, mimeType: "application/json", text: JSON.stringify(data) }] };
    },
  );
  // A stateless server cannot notify later: 2025-11-25 requires only the answer.
  server.server.setRequestHandler("resources/subscribe", () => ({}));
  server.server.setRequestHandler("resources/unsubscribe", () => ({}));
};
