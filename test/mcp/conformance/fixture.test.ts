import { InMemoryServerEventBus } from "@modelcontextprotocol/server";
import { expect, test } from "vitest";
import { serveMcp } from "../http-layer.ts";
import { fixtureExceptions } from "./exceptions.ts";
import { createFixtureFactory } from "./fixture-server.ts";
import { requirementsOf, revisions, runSuite } from "./suite.ts";

/** The official conformance suite against our HTTP layer, with the tools that the suite asks for behind it. */
test.each(revisions)("our HTTP layer passes what the official suite requires for %s", async (revision) => {
  const bus = new InMemoryServerEventBus();
  const newServer = createFixtureFactory((event) => bus.publish(event));
  const { url } = await serveMcp({ newServer, bus });
  const { required, extensions } = await requirementsOf(revision);
  const { ran, shortcomings } = await runSuite(`${url}/mcp`, revision);
  expect(ran).toEqual(expect.arrayContaining(required));
  const ours = (name: string): boolean => !extensions.includes(name.split(":")[0] ?? "");
  expect(shortcomings.filter(ours).toSorted()).toEqual(Object.keys(fixtureExceptions[revision]).toSorted());
});
