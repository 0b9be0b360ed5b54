-- Tables of version 0005 on PostgreSQL: keys come in the order of time, so that a page which is
-- full stays as it is; the tenth that PostgreSQL leaves free in each would never be used. It holds
-- for pages that are written from now on, and rewrites none.

ALTER INDEX duly_occurrence_pkey SET (fillfactor = 100);

ALTER INDEX duly_attempt_pkey SET (fillfactor = 100);
