import { useQuery } from "@tanstack/react-query";
import { useParams } from "wouter";
import { Answer } from "../parts/states.tsx";
import { Title } from "../parts/title.tsx";
import { client } from "../shell/service.ts";

export default function JobPage() {
  const { id } = useParams<{ id: string }>();
  const job = useQuery({
    queryKey: ["job", id],
    queryFn: ({ signal }) => client().get_job({ job_id: id }, { signal }),
  });
  return <Answer query={job}>{({ job: { task } }) => <Title>{task}</Title>}</Answer>;
}
