import { ServiceError } from "../contract/errors.ts";
import type { TaskFile } from "../contract/run-options.ts";

/** Most bytes of a picture: the model's endpoint takes no larger one. */
const maxPictureBytes = 5_000_000;

/** What the agent's model can see, by the first bytes (latin1), and the extensions that promise it. */
const seen = [
  { mediaType: "image/png", start: /^\x89PNG\r\n/, extension: /\.png$/i },
  { mediaType: "image/jpeg", start: /^\xff\xd8\xff/, extension: /\.jpe?g$/i },
  { mediaType: "image/gif", start: /^GIF8[79]a/, extension: /\.gif$/i },
  { mediaType: "image/webp", start: /^RIFF[^]{4}WEBP/, extension: /\.webp$/i },
  { mediaType: "application/pdf", start: /^%PDF-/, extension: /\.pdf$/i },
] as const;

/** Null: the agent finds it as a file. */
export const mediaTypeOf = ({ content, encoding }: TaskFile): (typeof seen)[number]["mediaType"] | null => {
  const first = Buffer.from(content.slice(0, 32), encoding).toString("latin1");
  return seen.find(({ start }) => start.test(first))?.mediaType ?? null;
};

/** @throws ServiceError `attachment_type` when a name promises other bytes, `invalid_request` for a picture too large */
export const checkAttached = (files: readonly TaskFile[]): void => {
  for (const file of files) {
    const named = JSON.stringify(file.name);
    const mediaType = mediaTypeOf(file);
    const promised = seen.find(({ extension }) => extension.test(file.name))?.mediaType;
    if (promised !== undefined && promised !== mediaType)
      throw new ServiceError(
        "attachment_type",
        `options.files: ${named} is no ${promised} by its first bytes; give it the name of what it is`,
      );
    if (mediaType?.startsWith("image/") && Buffer.byteLength(file.content, file.encoding) > maxPictureBytes)
      throw new ServiceError(
        "invalid_request",
        `options.files: the picture ${named} has more than 5 MB; make it smaller`,
      );
  }
};
