/** As the CLI names the directory of a project's transcripts. @throws Error when it would shorten the name */
export const projectName = (cwd: string): string => {
  const name = cwd.replaceAll(/[^a-zA-Z0-9]/g, "-");
  if (name.length <= 200) return name;
  throw new Error(
    `the path of the working directory, ${cwd}, has more than 200 characters: shorten its root`,
  );
};
