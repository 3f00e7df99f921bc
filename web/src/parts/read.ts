import { useQuery, type UseQueryOptions, type UseQueryResult } from "@tanstack/react-query";
import type { Answer } from "../../../src/contract/operation.ts";
import type { Operations } from "../../../src/contract/operations.ts";
import type { Client } from "../../../src/client/client.ts";
import { client } from "../shell/service.ts";

type Name = keyof Operations;
type Input<Of extends Name> = NonNullable<Parameters<Client[Of]>[0]>;
type Options<Of extends Name> = Omit<UseQueryOptions<Answer<Operations[Of]>>, "queryKey" | "queryFn">;
type Read<Of extends Name> = (
  input: Input<Of>,
  options: { signal: AbortSignal },
) => Promise<Answer<Operations[Of]>>;

/** What an operation of the service answers, known to all parts of the page by its name and input. */
export const useRead = <Of extends Name>(
  name: Of,
  input: Input<Of>,
  options?: Options<Of>,
): UseQueryResult<Answer<Operations[Of]>> =>
  useQuery({
    queryKey: [name, input],
    queryFn: ({ signal }) => (client()[name] as Read<Of>)(input, { signal }),
    ...options,
  });
