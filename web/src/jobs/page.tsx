import { useQuery } from "@tanstack/react-query";
import { Answer, Empty } from "../parts/states.tsx";
import { Title } from "../parts/title.tsx";
import { client } from "../shell/service.ts";

export default function JobsPage() {
  const list = useQuery({
    queryKey: ["jobs"],
    queryFn: ({ signal }) => client().list_jobs({ limit: 100 }, { signal }),
    refetchOnWindowFocus: "always",
  });
  return (
    <>
      <Title hidden>Jobs</Title>
      <Answer query={list}>
        {({ jobs }) =>
          jobs.length === 0 ? (
            <Empty title="No jobs yet" />
          ) : (
            jobs.map(({ id, task }) => <p key={id}>{task}</p>)
          )
        }
      </Answer>
    </>
  );
}
