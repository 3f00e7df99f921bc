/** Names the first of them, and how many more there are. */
export const some = (texts: readonly string[], most = 5): string => {
  const more = texts.length > most ? ` and ${texts.length - most} more` : "";
  return `${texts.slice(0, most).join(", ")}${more}`;
};
