import { Skeleton } from "@mantine/core";
import { Loading } from "../components/Loaded";
import { PageHeader } from "../components/PageHeader";

export interface PageHead {
  title: string;
  subtitle: string;
}

/** What a page's link is answered with: the page's head, where it is known before its data, over what is to come. */
export function PageSkeleton({ head }: { head: PageHead | undefined }) {
  return (
    <>
      {head && <PageHeader title={head.title} subtitle={head.subtitle} />}
      <Loading>
        {!head && <Skeleton height={34} width={260} mb="lg" />}
        <Skeleton height={36} mb="md" />
        <Skeleton height={320} />
      </Loading>
    </>
  );
}
