import { RequestFault } from "./public-failure.ts";

/** An image of a message. */
export type Image = { type: "image"; mediaType: string; base64: string };

/**
 * The image of a data URL. Its bytes tell the kind, whatever the URL says: a model's endpoint that is told a wrong one
 * refuses the whole conversation from then on.
 * @param param where it stands in the request
 * @throws RequestFault for every other URL
 */
export const imageOf = (url: string, param: string): Image => {
  // Megabytes are not looked through for what must stand at the start.
  const head = url.slice(0, 200);
  const comma = head.indexOf(",");
  if (!/^data:/i.test(head))
    throw new RequestFault(
      param,
      "must be a data URL (data:image/png;base64,…): the service fetches no images from elsewhere",
      "unsupported_value",
    );
  if (comma === -1 || !/^data:image\/[\w.+-]+(;[\w=.-]+)*;base64$/i.test(head.slice(0, comma)))
    throw new RequestFault(param, "must be a data URL of an image in base64 (data:image/png;base64,…)");
  const base64 = url.slice(comma + 1);
  const mediaType = kinds.find(({ start }) => base64.startsWith(start))?.mediaType;
  if (mediaType === undefined) throw new RequestFault(param, "must be a PNG, JPEG, GIF or WebP image");
  if (!isBase64(base64)) throw new RequestFault(param, "is not valid base64");
  return { type: "image", mediaType, base64 };
};

/** How the bytes that such a file begins with look in base64. */
const kinds = [
  { start: "iVBORw0KGgo", mediaType: "image/png" },
  { start: "/9j/", mediaType: "image/jpeg" },
  { start: "R0lGOD", mediaType: "image/gif" },
  { start: "UklGR", mediaType: "image/webp" },
];

/** Looks for what must not be there: a pattern for the whole of it would run out of stack on megabytes. */
const isBase64 = (text: string): boolean => {
  const foreign = text.search(/[^A-Za-z0-9+/]/);
  const isClean = foreign === -1 || /^={1,2}$/.test(text.slice(foreign, foreign + 3));
  return text.length % 4 === 0 && isClean;
};
