import { expect, test } from "vitest";
import { createDenials } from "./denials.ts";

test("a request that the model's credential is not for is told as it was asked, and nothing allows it", () => {
  const denials = createDenials();
  for (let n = 0; n < 3; n += 1) denials.add("GET /v1/files/f:80");
  expect(denials.atEnd()).toEqual([
    {
      type: "denied",
      kind: "path",
      name: "GET /v1/files/f:80",
      count: 3,
      allow: "",
      at_end: true,
      message:
        "The agent wanted GET /v1/files/f:80 with the model's credential, which is for messages only, and was refused 3 times.",
    },
  ]);
});
