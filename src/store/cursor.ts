import { ServiceError } from "../contract/errors.ts";

type Position = { created: number; id: string };

/** A page's end as an opaque text: jobs before this position follow. */
export const toCursor = ({ created, id }: Position): string => `${created}_${id}`;

/** @throws ServiceError `invalid_request` when the text is not one of ours */
export const parseCursor = (cursor: string): Position => {
  const match = /^(\d{1,15})_([0-9a-f-]{36})$/.exec(cursor);
  if (match === null) {
    throw new ServiceError("invalid_request", "cursor: must be the next_cursor of an earlier page");
  }
  return { created: Number(match[1]), id: match[2] ?? "" };
};
