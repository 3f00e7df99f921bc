import { Ajv2020 } from "ajv/dist/2020.js";
import { checkChunk, checkError } from "../openai-schemas.ts";
import type { Answer } from "./ask.ts";
import type { Document, Question } from "./question.ts";

/** Statuses that any request can get before it reaches an operation. */
const anywhere = [408, 417, 431];

/** Says what is wrong with an answer by the OpenAPI document; null: nothing. */
export const createJudge = (document: Document) => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, validateSchema: false });
  ajv.addSchema(document, "document");

  const offSchema = (pointer: readonly string[], body: unknown): string | null => {
    const isValid = ajv.getSchema(`document#/${pointer.map(escaped).join("/")}`);
    if (isValid === undefined) throw new Error(`the document has no ${pointer.join(" ")}`);
    return isValid(body) === true ? null : ajv.errorsText(isValid.errors, { dataVar: "body" });
  };

  /** Where nothing is, and for what is not HTTP, there is no schema but that of failures. */
  const undescribed = ({ status = 0, body }: Answer): string | null => {
    const value = parsed(body);
    const shapes = ["Failure", "PublicFailure", "MessageFailure"];
    const isFailure = shapes.some((name) => offSchema(["components", "schemas", name], value) === null);
    if (status < 400) return null;
    return status >= 500 ? "status is not declared" : isFailure ? null : "is not what a failure looks like";
  };

  const described = ({ path, method }: Question, { status, type = "", body }: Answer): string | null => {
    const declared = document.paths[path]?.[method]?.responses[String(status)];
    if (declared === undefined) return "status is not declared";
    const [kind = ""] = type.split(";");
    if (declared.content?.[kind] === undefined) return `content type ${kind} is not declared`;
    if (kind === "text/event-stream") return offStream(path, body);
    if (kind !== "application/json") return null;
    const place = ["paths", path, method, "responses", String(status), "content", kind, "schema"];
    return offSchema(place, parsed(body));
  };

  return (question: Question, answer: Answer): string | null => {
    const { method, spoilt } = question;
    const { door, status, body, left = false, fault } = answer;
    if (fault !== undefined) return fault;
    if (/"code":("internal"|-32603)/.test(body)) return "internal failure";
    if (left || status === undefined) return null;
    const asked = (spoilt.method ?? method).toLowerCase();
    if (asked === "head" && door !== "broken") return body === "" ? null : "HEAD has a body";
    const isElsewhere = door === "broken" || spoilt.path !== undefined || asked !== method;
    return isElsewhere || anywhere.includes(status) ? undescribed(answer) : described(question, answer);
  };
};

const offStream = (path: string, body: string): string | null => {
  const values = [...body.matchAll(/^data: (.*)$/gm)].map(([, data = ""]) => parsed(data));
  const isWrong = (value: unknown): boolean =>
    path.startsWith("/v1")
      ? value !== "[DONE]" && checkChunk(value).length > 0 && checkError(value).length > 0
      : typeof value !== "object";
  const wrong = values.find(isWrong);
  return wrong === undefined ? null : `off stream: ${JSON.stringify(wrong)}`;
};

const escaped = (part: string): string =>
  encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"));

const parsed = (body: string): unknown => {
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
};
