const mostWords = 6;
const mostCharacters = 60;

/** The first words of what a user said first, as the title of the chat: one line, without slash tokens and marks. */
export const titleOf = (said: string): string => {
  const words = said
    .slice(0, 2000)
    .replaceAll(/(^|\s)\/(?:(?:show|hide)-[a-z]+|stream-status)(?=\s|$)/g, "$1")
    .replaceAll(/[`*_#>"“”|<{}[\]]+/g, " ")
    .trim()
    .split("\n", 1)
    .join()
    .split(/\s+/)
    .filter((word) => word !== "");
  const title = Array.from(words.slice(0, mostWords).join(" ")).slice(0, mostCharacters).join("");
  return title.replace(/[\s.,;:!?-]+$/, "") || "New chat";
};
