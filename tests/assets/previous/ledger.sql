BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0005');
CREATE TABLE bids (
	id TEXT NOT NULL, 
	lease_id TEXT NOT NULL, 
	at VARCHAR(27) NOT NULL, 
	bid_nano BIGINT NOT NULL, 
	outcome TEXT NOT NULL, 
	decision_id TEXT, 
	CONSTRAINT pk_bids PRIMARY KEY (id), 
	CONSTRAINT fk_bids_lease_id_leases FOREIGN KEY(lease_id) REFERENCES leases (id) DEFERRABLE INITIALLY DEFERRED
);
INSERT INTO "bids" VALUES('01M8596G8BN4MJQFNW9AQ6BCMW-2','01M85972EZPVRX6944BWQVAJTZ','2026-11-23T22:48:49.488630Z',306000000,'unknown','01M8596G8BN4MJQFNW9AQ6BCMW-2');
CREATE TABLE checkpoints (
	job_id TEXT NOT NULL, 
	lease_id TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	run_epoch BIGINT NOT NULL, 
	step BIGINT NOT NULL, 
	work_done_us BIGINT NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	part_count BIGINT NOT NULL, 
	verified_at VARCHAR(27) NOT NULL, 
	CONSTRAINT pk_checkpoints PRIMARY KEY (lease_id, number), 
	CONSTRAINT fk_checkpoints_job_id_jobs FOREIGN KEY(job_id) REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED, 
	CONSTRAINT fk_checkpoints_lease_id_leases FOREIGN KEY(lease_id) REFERENCES leases (id) DEFERRABLE INITIALLY DEFERRED
);
INSERT INTO "checkpoints" VALUES('01M8593C71KWXTSZAG3RW618P5','01M8596RTJQK1MGVJWRJ4AF8YW',0,1,0,33184860,526159,2,'2026-11-23T22:45:54.044670Z');
INSERT INTO "checkpoints" VALUES('01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ',3,1,0,152026620,526159,2,'2026-11-23T22:47:59.013330Z');
INSERT INTO "checkpoints" VALUES('01M8596STBNPNB9B2KD903W9WW','01M85972VFPMX3NTTVSSV702N1',3,1,0,142387080,526155,2,'2026-11-23T22:47:59.013330Z');
INSERT INTO "checkpoints" VALUES('01M85967V3AYDHFRBDTFNF9C48','01M859729Y6WCWHS9HB47GV52R',3,1,0,165251880,526159,2,'2026-11-23T22:48:13.124490Z');
INSERT INTO "checkpoints" VALUES('01M8596STBNPNB9B2KD903W9WW','01M85972VFPMX3NTTVSSV702N1',4,1,0,170068920,526159,2,'2026-11-23T22:48:29.158770Z');
INSERT INTO "checkpoints" VALUES('01M85967V3AYDHFRBDTFNF9C48','01M859729Y6WCWHS9HB47GV52R',4,1,0,202060080,526159,2,'2026-11-23T22:48:46.761270Z');
INSERT INTO "checkpoints" VALUES('01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ',4,1,0,202060080,526159,2,'2026-11-23T22:48:46.761270Z');
CREATE TABLE decisions (
	seq INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	job_id TEXT NOT NULL, 
	at VARCHAR(27) NOT NULL, 
	actions JSON NOT NULL, 
	vetoes JSON NOT NULL, 
	notes JSON NOT NULL, 
	CONSTRAINT pk_decisions PRIMARY KEY (seq), 
	CONSTRAINT fk_decisions_job_id_jobs FOREIGN KEY(job_id) REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED
);
INSERT INTO "decisions" VALUES(1,'01M8593C71KWXTSZAG3RW618P5-1','01M8593C71KWXTSZAG3RW618P5','2026-11-23T22:42:40.398510Z','[["acquire", [["reason", "cheapest"], ["slot", "main"], ["provider", "vastai"], ["machine_id", "44072"], ["capacity_type", "spot"], ["rate", {"decimal": "0.149"}], ["floor", {"decimal": "0.129300000"}], ["on_demand_rate", {"decimal": "0.234900000"}]]]]','[]','[["standing", [["slack_s", null], ["one_more_loss_s", 540], ["verdict", null], ["committed", {"decimal": "0"}], ["budget", {"decimal": "20.00"}]]], ["way", [["way", "wait"], ["cost", null], ["rate", null], ["provider", null], ["machine_id", null], ["refused", null], ["chosen", 0]]], ["way", [["way", "spot"], ["cost", {"decimal": "0.2060"}], ["rate", {"decimal": "0.149"}], ["provider", "vastai"], ["machine_id", "44072"], ["refused", null], ["chosen", 1]]], ["way", [["way", "on_demand"], ["cost", {"decimal": "0.2910"}], ["rate", {"decimal": "0.234900000"}], ["provider", "vastai"], ["machine_id", "44072"], ["refused", "not_needed"], ["chosen", 0]]]]');
INSERT INTO "decisions" VALUES(2,'01M85967V3AYDHFRBDTFNF9C48-1','01M85967V3AYDHFRBDTFNF9C48','2026-11-23T22:42:49.712850Z','[["acquire", [["reason", "cheapest"], ["slot", "main"], ["provider", "runpod"], ["machine_id", "NVIDIA RTX A4000/COMMUNITY/-"], ["capacity_type", "spot"], ["rate", {"decimal": "0.174"}], ["floor", {"decimal": "0.151000000"}], ["on_demand_rate", {"decimal": "0.240000000"}]]]]','[]','[["standing", [["slack_s", null], ["one_more_loss_s", 540], ["verdict", null], ["committed", {"decimal": "0"}], ["budget", {"decimal": "20.00"}]]], ["way", [["way", "wait"], ["cost", null], ["rate", null], ["provider", null], ["machine_id", null], ["refused", null], ["chosen", 0]]], ["way", [["way", "spot"], ["cost", {"decimal": "0.1963"}], ["rate", {"decimal": "0.174"}], ["provider", "runpod"], ["machine_id", "NVIDIA RTX A4000/COMMUNITY/-"], ["refused", null], ["chosen", 1]]], ["way", [["way", "on_demand"], ["cost", {"decimal": "0.2617"}], ["rate", {"decimal": "0.240000000"}], ["provider", "runpod"], ["machine_id", "NVIDIA RTX A4000/COMMUNITY/-"], ["refused", "not_needed"], ["chosen", 0]]]]');
INSERT INTO "decisions" VALUES(3,'01M8596G8BN4MJQFNW9AQ6BCMW-1','01M8596G8BN4MJQFNW9AQ6BCMW','2026-11-23T22:42:49.712850Z','[["acquire", [["reason", "cheapest"], ["slot", "main"], ["provider", "vastai"], ["machine_id", "43668"], ["capacity_type", "spot"], ["rate", {"decimal": "0.278"}], ["floor", {"decimal": "0.241700000"}], ["on_demand_rate", {"decimal": "0.439400000"}]]]]','[]','[["standing", [["slack_s", null], ["one_more_loss_s", 540], ["verdict", null], ["committed", {"decimal": "0"}], ["budget", {"decimal": "20.00"}]]], ["way", [["way", "wait"], ["cost", null], ["rate", null], ["provider", null], ["machine_id", null], ["refused", null], ["chosen", 0]]], ["way", [["way", "spot"], ["cost", {"decimal": "0.3411"}], ["rate", {"decimal": "0.278"}], ["provider", "vastai"], ["machine_id", "43668"], ["refused", null], ["chosen", 1]]], ["way", [["way", "on_demand"], ["cost", {"decimal": "0.4557"}], ["rate", {"decimal": "0.395400000"}], ["provider", "vastai"], ["machine_id", "43567"], ["refused", "not_needed"], ["chosen", 0]]]]');
INSERT INTO "decisions" VALUES(4,'01M8596STBNPNB9B2KD903W9WW-1','01M8596STBNPNB9B2KD903W9WW','2026-11-23T22:42:49.712850Z','[["acquire", [["reason", "cheapest"], ["slot", "main"], ["provider", "vastai"], ["machine_id", "43971"], ["capacity_type", "spot"], ["rate", {"decimal": "0.280"}], ["floor", {"decimal": "0.243000000"}], ["on_demand_rate", {"decimal": "0.423600000"}]]]]','[]','[["standing", [["slack_s", null], ["one_more_loss_s", 540], ["verdict", null], ["committed", {"decimal": "0"}], ["budget", {"decimal": "20.00"}]]], ["way", [["way", "wait"], ["cost", null], ["rate", null], ["provider", null], ["machine_id", null], ["refused", null], ["chosen", 0]]], ["way", [["way", "spot"], ["cost", {"decimal": "0.3419"}], ["rate", {"decimal": "0.280"}], ["provider", "vastai"], ["machine_id", "43971"], ["refused", null], ["chosen", 1]]], ["way", [["way", "on_demand"], ["cost", {"decimal": "0.4557"}], ["rate", {"decimal": "0.395400000"}], ["provider", "vastai"], ["machine_id", "43567"], ["refused", "not_needed"], ["chosen", 0]]]]');
INSERT INTO "decisions" VALUES(5,'01M8593C71KWXTSZAG3RW618P5-2','01M8593C71KWXTSZAG3RW618P5','2026-11-23T22:46:15.767790Z','[["release", [["reason", "completed"], ["lease_id", "01M8596RTJQK1MGVJWRJ4AF8YW"]]]]','[]','[["over", [["status", "succeeded"], ["reason", "completed"]]]]');
INSERT INTO "decisions" VALUES(6,'01M8596G8BN4MJQFNW9AQ6BCMW-2','01M8596G8BN4MJQFNW9AQ6BCMW','2026-11-23T22:48:49.488630Z','[["change_bid", [["reason", "outbid"], ["lease_id", "01M85972EZPVRX6944BWQVAJTZ"], ["bid", {"decimal": "0.306"}]]]]','[]','[["standing", [["slack_s", null], ["one_more_loss_s", 540], ["verdict", null], ["committed", {"decimal": "0.183489468"}], ["budget", {"decimal": "20.00"}]]], ["paused", [["cause", "outbid"], ["paused_s", 0], ["rebid", {"decimal": "0.306"}], ["cost_of_rebid", {"decimal": "0.323407197"}], ["cost_of_leaving", {"decimal": "0.347658055"}], ["cost_of_waiting_per_h", {"decimal": "0.002777778"}]]]]');
CREATE TABLE events (
	seq INTEGER NOT NULL, 
	at VARCHAR(27) NOT NULL, 
	name TEXT NOT NULL, 
	job_id TEXT, 
	lease_id TEXT, 
	fields JSON NOT NULL, 
	CONSTRAINT pk_events PRIMARY KEY (seq)
);
INSERT INTO "events" VALUES(1,'2026-11-23T22:40:49.889310Z','job.submitted','01M8593C71KWXTSZAG3RW618P5',NULL,'[["name", "finished"]]');
INSERT INTO "events" VALUES(2,'2026-11-23T22:42:23.715450Z','job.submitted','01M85967V3AYDHFRBDTFNF9C48',NULL,'[["name", "running"]]');
INSERT INTO "events" VALUES(3,'2026-11-23T22:42:40.398510Z','lease.intended','01M8593C71KWXTSZAG3RW618P5','01M8596RTJQK1MGVJWRJ4AF8YW','[["provider", "vastai"], ["machine_id", "44072"], ["gpu", "RTX 3090"], ["capacity_type", "spot"], ["rate", {"decimal": "0.149"}], ["reserved", {"decimal": "0.222596308"}], ["slot", "main"], ["reason", "cheapest"]]');
INSERT INTO "events" VALUES(4,'2026-11-23T22:42:40.398510Z','job.starting','01M8593C71KWXTSZAG3RW618P5',NULL,'[["reason", "launching"], ["from", "pending"]]');
INSERT INTO "events" VALUES(5,'2026-11-23T22:42:32.331270Z','job.submitted','01M8596G8BN4MJQFNW9AQ6BCMW',NULL,'[["name", "paused"]]');
INSERT INTO "events" VALUES(6,'2026-11-23T22:42:42.122670Z','job.submitted','01M8596STBNPNB9B2KD903W9WW',NULL,'[["name", "moved"]]');
INSERT INTO "events" VALUES(7,'2026-11-23T22:42:43.700610Z','lease.acquired','01M8593C71KWXTSZAG3RW618P5','01M8596RTJQK1MGVJWRJ4AF8YW','[["instance_id", "47848147"]]');
INSERT INTO "events" VALUES(8,'2026-11-23T22:42:43.820550Z','job.submitted','01M8596VFCRHDB6XX37Q79CZWB',NULL,'[["name", "waiting"]]');
INSERT INTO "events" VALUES(9,'2026-11-23T22:42:49.712850Z','lease.intended','01M85967V3AYDHFRBDTFNF9C48','01M859729Y6WCWHS9HB47GV52R','[["provider", "runpod"], ["machine_id", "NVIDIA RTX A4000/COMMUNITY/-"], ["gpu", "RTX A4000"], ["capacity_type", "spot"], ["rate", {"decimal": "0.174"}], ["reserved", {"decimal": "0.101698154"}], ["slot", "main"], ["reason", "cheapest"]]');
INSERT INTO "events" VALUES(10,'2026-11-23T22:42:49.712850Z','job.starting','01M85967V3AYDHFRBDTFNF9C48',NULL,'[["reason", "launching"], ["from", "pending"]]');
INSERT INTO "events" VALUES(11,'2026-11-23T22:42:49.712850Z','lease.intended','01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ','[["provider", "vastai"], ["machine_id", "43668"], ["gpu", "RTX 4090"], ["capacity_type", "spot"], ["rate", {"decimal": "0.278"}], ["reserved", {"decimal": "0.181498155"}], ["slot", "main"], ["reason", "cheapest"]]');
INSERT INTO "events" VALUES(12,'2026-11-23T22:42:49.712850Z','job.starting','01M8596G8BN4MJQFNW9AQ6BCMW',NULL,'[["reason", "launching"], ["from", "pending"]]');
INSERT INTO "events" VALUES(13,'2026-11-23T22:42:49.712850Z','lease.intended','01M8596STBNPNB9B2KD903W9WW','01M85972VFPMX3NTTVSSV702N1','[["provider", "vastai"], ["machine_id", "43971"], ["gpu", "RTX 4090"], ["capacity_type", "spot"], ["rate", {"decimal": "0.280"}], ["reserved", {"decimal": "0.181898154"}], ["slot", "main"], ["reason", "cheapest"]]');
INSERT INTO "events" VALUES(14,'2026-11-23T22:42:49.712850Z','job.starting','01M8596STBNPNB9B2KD903W9WW',NULL,'[["reason", "launching"], ["from", "pending"]]');
INSERT INTO "events" VALUES(15,'2026-11-23T22:42:55.040970Z','lease.acquired','01M85967V3AYDHFRBDTFNF9C48','01M859729Y6WCWHS9HB47GV52R','[["instance_id", "h2vguwbcd4nmgt"]]');
INSERT INTO "events" VALUES(16,'2026-11-23T22:42:55.452030Z','lease.acquired','01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ','[["instance_id", "47848148"]]');
INSERT INTO "events" VALUES(17,'2026-11-23T22:43:02.055630Z','lease.acquired','01M8596STBNPNB9B2KD903W9WW','01M85972VFPMX3NTTVSSV702N1','[["instance_id", "47848149"]]');
INSERT INTO "events" VALUES(18,'2026-11-23T22:43:24.432510Z','lease.running','01M8593C71KWXTSZAG3RW618P5','01M8596RTJQK1MGVJWRJ4AF8YW','[["rate", {"decimal": "0.149000000"}]]');
INSERT INTO "events" VALUES(19,'2026-11-23T22:43:44.471610Z','lease.running','01M85967V3AYDHFRBDTFNF9C48','01M859729Y6WCWHS9HB47GV52R','[["rate", {"decimal": "0.174000000"}]]');
INSERT INTO "events" VALUES(20,'2026-11-23T22:43:44.471610Z','lease.running','01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ','[["rate", {"decimal": "0.278000000"}]]');
INSERT INTO "events" VALUES(21,'2026-11-23T22:44:03.493650Z','lease.running','01M8596STBNPNB9B2KD903W9WW','01M85972VFPMX3NTTVSSV702N1','[["rate", {"decimal": "0.280000000"}]]');
INSERT INTO "events" VALUES(22,'2026-11-23T22:44:39.371850Z','agent.reported','01M8593C71KWXTSZAG3RW618P5','01M8596RTJQK1MGVJWRJ4AF8YW','[["state", "waiting"], ["boot", 1]]');
INSERT INTO "events" VALUES(23,'2026-11-23T22:45:06.166470Z','agent.reported','01M8593C71KWXTSZAG3RW618P5','01M8596RTJQK1MGVJWRJ4AF8YW','[["state", "running"], ["boot", 1]]');
INSERT INTO "events" VALUES(24,'2026-11-23T22:45:06.166470Z','job.running','01M8593C71KWXTSZAG3RW618P5',NULL,'[["reason", "working"], ["from", "starting"]]');
INSERT INTO "events" VALUES(25,'2026-11-23T22:45:06.166470Z','agent.reported','01M85967V3AYDHFRBDTFNF9C48','01M859729Y6WCWHS9HB47GV52R','[["state", "waiting"], ["boot", 1]]');
INSERT INTO "events" VALUES(26,'2026-11-23T22:45:06.166470Z','agent.reported','01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ','[["state", "waiting"], ["boot", 1]]');
INSERT INTO "events" VALUES(27,'2026-11-23T22:45:15.346170Z','agent.reported','01M85967V3AYDHFRBDTFNF9C48','01M859729Y6WCWHS9HB47GV52R','[["state", "running"], ["boot", 1]]');
INSERT INTO "events" VALUES(28,'2026-11-23T22:45:15.346170Z','job.running','01M85967V3AYDHFRBDTFNF9C48',NULL,'[["reason", "working"], ["from", "starting"]]');
INSERT INTO "events" VALUES(29,'2026-11-23T22:45:15.346170Z','agent.reported','01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ','[["state", "running"], ["boot", 1]]');
INSERT INTO "events" VALUES(30,'2026-11-23T22:45:15.346170Z','job.running','01M8596G8BN4MJQFNW9AQ6BCMW',NULL,'[["reason", "working"], ["from", "starting"]]');
INSERT INTO "events" VALUES(31,'2026-11-23T22:45:15.346170Z','agent.reported','01M8596STBNPNB9B2KD903W9WW','01M85972VFPMX3NTTVSSV702N1','[["state", "waiting"], ["boot", 1]]');
INSERT INTO "events" VALUES(32,'2026-11-23T22:45:24.985710Z','agent.reported','01M8596STBNPNB9B2KD903W9WW','01M85972VFPMX3NTTVSSV702N1','[["state", "running"], ["boot", 1]]');
INSERT INTO "events" VALUES(33,'2026-11-23T22:45:24.985710Z','job.running','01M8596STBNPNB9B2KD903W9WW',NULL,'[["reason", "working"], ["from", "starting"]]');
INSERT INTO "events" VALUES(34,'2026-11-23T22:45:55.185090Z','agent.reported','01M8593C71KWXTSZAG3RW618P5','01M8596RTJQK1MGVJWRJ4AF8YW','[["state", "finished"], ["boot", 1]]');
INSERT INTO "events" VALUES(35,'2026-11-23T22:45:55.185090Z','checkpoint.verified','01M8593C71KWXTSZAG3RW618P5','01M8596RTJQK1MGVJWRJ4AF8YW','[["number", 0], ["step", 0], ["bytes", 526159]]');
INSERT INTO "events" VALUES(36,'2026-11-23T22:46:15.767790Z','run.exited','01M8593C71KWXTSZAG3RW618P5','01M8596RTJQK1MGVJWRJ4AF8YW','[["exit_code", 0], ["run_epoch", 1]]');
INSERT INTO "events" VALUES(37,'2026-11-23T22:46:15.767790Z','job.succeeded','01M8593C71KWXTSZAG3RW618P5',NULL,'[["reason", "completed"], ["from", "running"]]');
INSERT INTO "events" VALUES(38,'2026-11-23T22:46:15.767790Z','lease.release_requested','01M8593C71KWXTSZAG3RW618P5','01M8596RTJQK1MGVJWRJ4AF8YW','[["reason", "completed"]]');
INSERT INTO "events" VALUES(39,'2026-11-23T22:46:15.767790Z','checkpoint.verified','01M85967V3AYDHFRBDTFNF9C48','01M859729Y6WCWHS9HB47GV52R','[["number", 0], ["step", 0], ["bytes", 526159]]');
INSERT INTO "events" VALUES(40,'2026-11-23T22:46:15.767790Z','checkpoint.verified','01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ','[["number", 0], ["step", 0], ["bytes", 526159]]');
INSERT INTO "events" VALUES(41,'2026-11-23T22:46:15.767790Z','checkpoint.verified','01M8596STBNPNB9B2KD903W9WW','01M85972VFPMX3NTTVSSV702N1','[["number", 0], ["step", 0], ["bytes", 526159]]');
INSERT INTO "events" VALUES(42,'2026-11-23T22:46:21.307950Z','lease.destroy_sent','01M8593C71KWXTSZAG3RW618P5','01M8596RTJQK1MGVJWRJ4AF8YW','[["accepted", "true"]]');
INSERT INTO "events" VALUES(43,'2026-11-23T22:46:41.019630Z','checkpoint.verified','01M8596STBNPNB9B2KD903W9WW','01M85972VFPMX3NTTVSSV702N1','[["number", 1], ["step", 0], ["bytes", 526159]]');
INSERT INTO "events" VALUES(44,'2026-11-23T22:46:53.687850Z','lease.gone','01M8593C71KWXTSZAG3RW618P5','01M8596RTJQK1MGVJWRJ4AF8YW','[["reason", "completed"]]');
INSERT INTO "events" VALUES(45,'2026-11-23T22:46:55.852110Z','checkpoint.verified','01M85967V3AYDHFRBDTFNF9C48','01M859729Y6WCWHS9HB47GV52R','[["number", 1], ["step", 0], ["bytes", 526159]]');
INSERT INTO "events" VALUES(46,'2026-11-23T22:46:55.852110Z','checkpoint.verified','01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ','[["number", 1], ["step", 0], ["bytes", 526159]]');
INSERT INTO "events" VALUES(47,'2026-11-23T22:47:28.348050Z','checkpoint.verified','01M85967V3AYDHFRBDTFNF9C48','01M859729Y6WCWHS9HB47GV52R','[["number", 2], ["step", 0], ["bytes", 526159]]');
INSERT INTO "events" VALUES(48,'2026-11-23T22:47:28.348050Z','checkpoint.verified','01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ','[["number", 2], ["step", 0], ["bytes", 526159]]');
INSERT INTO "events" VALUES(49,'2026-11-23T22:47:28.348050Z','checkpoint.verified','01M8596STBNPNB9B2KD903W9WW','01M85972VFPMX3NTTVSSV702N1','[["number", 2], ["step", 0], ["bytes", 526159]]');
INSERT INTO "events" VALUES(50,'2026-11-23T22:48:00.598050Z','checkpoint.verified','01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ','[["number", 3], ["step", 0], ["bytes", 526159]]');
INSERT INTO "events" VALUES(51,'2026-11-23T22:48:00.598050Z','checkpoint.verified','01M8596STBNPNB9B2KD903W9WW','01M85972VFPMX3NTTVSSV702N1','[["number", 3], ["step", 0], ["bytes", 526155]]');
INSERT INTO "events" VALUES(52,'2026-11-23T22:48:15.054630Z','checkpoint.verified','01M85967V3AYDHFRBDTFNF9C48','01M859729Y6WCWHS9HB47GV52R','[["number", 3], ["step", 0], ["bytes", 526159]]');
INSERT INTO "events" VALUES(53,'2026-11-23T22:48:37.406250Z','checkpoint.verified','01M8596STBNPNB9B2KD903W9WW','01M85972VFPMX3NTTVSSV702N1','[["number", 4], ["step", 0], ["bytes", 526159]]');
INSERT INTO "events" VALUES(54,'2026-11-23T22:48:49.488630Z','checkpoint.verified','01M85967V3AYDHFRBDTFNF9C48','01M859729Y6WCWHS9HB47GV52R','[["number", 4], ["step", 0], ["bytes", 526159]]');
INSERT INTO "events" VALUES(55,'2026-11-23T22:48:49.488630Z','lease.paused','01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ','[["cause", "outbid"], ["rate", {"decimal": "0.278000000"}]]');
INSERT INTO "events" VALUES(56,'2026-11-23T22:48:49.488630Z','work.lost','01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ','[["seconds", 50]]');
INSERT INTO "events" VALUES(57,'2026-11-23T22:48:49.488630Z','job.paused','01M8596G8BN4MJQFNW9AQ6BCMW',NULL,'[["reason", "outbid"], ["from", "running"]]');
INSERT INTO "events" VALUES(58,'2026-11-23T22:48:49.488630Z','agent.reported','01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ','[["state", "running"], ["boot", 1]]');
INSERT INTO "events" VALUES(59,'2026-11-23T22:48:49.488630Z','checkpoint.verified','01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ','[["number", 4], ["step", 0], ["bytes", 526159]]');
INSERT INTO "events" VALUES(60,'2026-11-23T22:48:49.488630Z','bid.intended','01M8596G8BN4MJQFNW9AQ6BCMW','01M85972EZPVRX6944BWQVAJTZ','[["bid", {"decimal": "0.306"}], ["from", {"decimal": "0.278000000"}]]');
INSERT INTO "events" VALUES(61,'2026-11-23T22:48:49.488630Z','lease.offline','01M8596STBNPNB9B2KD903W9WW','01M85972VFPMX3NTTVSSV702N1','[]');
INSERT INTO "events" VALUES(62,'2026-11-23T22:48:49.488630Z','work.lost','01M8596STBNPNB9B2KD903W9WW','01M85972VFPMX3NTTVSSV702N1','[["seconds", 22]]');
INSERT INTO "events" VALUES(63,'2026-11-23T22:48:49.488630Z','job.recovering','01M8596STBNPNB9B2KD903W9WW',NULL,'[["reason", "host_lost"], ["from", "running"]]');
INSERT INTO "events" VALUES(64,'2026-11-23T22:48:49.488630Z','agent.reported','01M8596STBNPNB9B2KD903W9WW','01M85972VFPMX3NTTVSSV702N1','[["state", "running"], ["boot", 1]]');
CREATE TABLE invoice_lines (
	id TEXT NOT NULL, 
	provider TEXT NOT NULL, 
	instance_id TEXT NOT NULL, 
	lease_id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	day DATE NOT NULL, 
	amount_nano BIGINT NOT NULL, 
	revision BIGINT NOT NULL, 
	seen_at VARCHAR(27) NOT NULL, 
	CONSTRAINT pk_invoice_lines PRIMARY KEY (id), 
	CONSTRAINT fk_invoice_lines_lease_id_leases FOREIGN KEY(lease_id) REFERENCES leases (id) DEFERRABLE INITIALLY DEFERRED
);
INSERT INTO "invoice_lines" VALUES('vastai:47848147:bandwidth:2026-11-23:r1','vastai','47848147','01M8596RTJQK1MGVJWRJ4AF8YW','bandwidth','2026-11-23',0,1,'2026-11-23T22:47:56.181150Z');
INSERT INTO "invoice_lines" VALUES('vastai:47848147:compute:2026-11-23:r1','vastai','47848147','01M8596RTJQK1MGVJWRJ4AF8YW','compute','2026-11-23',7000000,1,'2026-11-23T22:47:56.181150Z');
INSERT INTO "invoice_lines" VALUES('vastai:47848147:storage_running:2026-11-23:r1','vastai','47848147','01M8596RTJQK1MGVJWRJ4AF8YW','storage_running','2026-11-23',0,1,'2026-11-23T22:47:56.181150Z');
CREATE TABLE jobs (
	id TEXT NOT NULL, 
	spec JSON NOT NULL, 
	status TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	submitted_at VARCHAR(27) NOT NULL, 
	run_epoch BIGINT NOT NULL, 
	launches BIGINT NOT NULL, 
	fruitless BIGINT NOT NULL, 
	parked_at VARCHAR(27), 
	failures BIGINT NOT NULL, 
	work_done_us BIGINT NOT NULL, 
	progress TEXT, 
	step BIGINT NOT NULL, 
	paces JSON NOT NULL, 
	exit_code BIGINT, 
	finished_at VARCHAR(27), 
	decisions BIGINT NOT NULL, 
	name TEXT NOT NULL, 
	CONSTRAINT pk_jobs PRIMARY KEY (id)
);
INSERT INTO "jobs" VALUES('01M8593C71KWXTSZAG3RW618P5','{"name": "finished", "image": "autopilot/demo:1", "run": "exec python3 /srv/numpy_training.py 30 0.02 /srv/finished.witness", "gpus": [{"name": "RTX 3090", "count": 1}], "setup": "", "workdir": "/workspace", "trust": "verified", "env": [], "min_vram_gb": "0", "disk_gb": "20", "max_hourly": null, "work_estimate": null, "work_on": null, "spot_policy": "auto", "max_bid": null, "deadline": null, "fall_back": true, "budget": "20.00", "max_rate": null, "cancel_when_exhausted": false, "checkpoint_path": "ckpt", "checkpoint_interval": "PT30S", "interval_is_fixed": true, "max_loss": null, "checkpoints_kept": 2, "progress": "", "stall_after": null, "stall_fails": false, "secrets": [], "inputs": [], "inputs_gb": "0", "outputs": [], "outputs_gb": "0", "as_root": false, "max_attempts": 3}','succeeded','completed','2026-11-23T22:40:49.889310Z',1,1,0,NULL,0,49018620,NULL,0,'[]',0,'2026-11-23T22:46:15.767790Z',2,'finished');
INSERT INTO "jobs" VALUES('01M85967V3AYDHFRBDTFNF9C48','{"name": "running", "image": "autopilot/demo:1", "run": "exec python3 /srv/numpy_training.py 300 0.02 /srv/running.witness", "gpus": [{"name": "RTX A4000", "count": 1}], "setup": "", "workdir": "/workspace", "trust": "verified", "env": [], "min_vram_gb": "0", "disk_gb": "20", "max_hourly": null, "work_estimate": null, "work_on": null, "spot_policy": "auto", "max_bid": null, "deadline": null, "fall_back": true, "budget": "20.00", "max_rate": null, "cancel_when_exhausted": false, "checkpoint_path": "ckpt", "checkpoint_interval": "PT30S", "interval_is_fixed": true, "max_loss": null, "checkpoints_kept": 2, "progress": "", "stall_after": null, "stall_fails": false, "secrets": [], "inputs": [], "inputs_gb": "0", "outputs": [], "outputs_gb": "0", "as_root": false, "max_attempts": 3}','running','working','2026-11-23T22:42:23.715450Z',1,1,0,NULL,0,233636520,NULL,0,'[]',NULL,NULL,1,'running');
INSERT INTO "jobs" VALUES('01M8596G8BN4MJQFNW9AQ6BCMW','{"name": "paused", "image": "autopilot/demo:1", "run": "exec python3 /srv/numpy_training.py 300 0.02 /srv/paused.witness", "gpus": [{"name": "RTX 4090", "count": 1}], "setup": "", "workdir": "/workspace", "trust": "verified", "env": [], "min_vram_gb": "0", "disk_gb": "20", "max_hourly": null, "work_estimate": null, "work_on": null, "spot_policy": "auto", "max_bid": null, "deadline": null, "fall_back": true, "budget": "20.00", "max_rate": null, "cancel_when_exhausted": false, "checkpoint_path": "ckpt", "checkpoint_interval": "PT30S", "interval_is_fixed": true, "max_loss": null, "checkpoints_kept": 2, "progress": "", "stall_after": null, "stall_fails": false, "secrets": [], "inputs": [], "inputs_gb": "0", "outputs": [], "outputs_gb": "0", "as_root": false, "max_attempts": 3}','paused','outbid','2026-11-23T22:42:32.331270Z',1,1,0,NULL,0,152026620,NULL,0,'[]',NULL,NULL,2,'paused');
INSERT INTO "jobs" VALUES('01M8596STBNPNB9B2KD903W9WW','{"name": "moved", "image": "autopilot/demo:1", "run": "exec python3 /srv/numpy_training.py 300 0.02 /srv/moved.witness", "gpus": [{"name": "RTX 4090", "count": 1}], "setup": "", "workdir": "/workspace", "trust": "verified", "env": [], "min_vram_gb": "0", "disk_gb": "20", "max_hourly": null, "work_estimate": null, "work_on": null, "spot_policy": "auto", "max_bid": null, "deadline": null, "fall_back": true, "budget": "20.00", "max_rate": null, "cancel_when_exhausted": false, "checkpoint_path": "ckpt", "checkpoint_interval": "PT30S", "interval_is_fixed": true, "max_loss": null, "checkpoints_kept": 2, "progress": "", "stall_after": null, "stall_fails": false, "secrets": [], "inputs": [], "inputs_gb": "0", "outputs": [], "outputs_gb": "0", "as_root": false, "max_attempts": 3}','recovering','host_lost','2026-11-23T22:42:42.122670Z',1,1,0,NULL,0,170068920,NULL,0,'[]',NULL,NULL,1,'moved');
INSERT INTO "jobs" VALUES('01M8596VFCRHDB6XX37Q79CZWB','{"name": "waiting", "image": "autopilot/demo:1", "run": "exec python3 /srv/numpy_training.py 300 0.02 /srv/waiting.witness", "gpus": [{"name": "H100 SXM", "count": 1}], "setup": "", "workdir": "/workspace", "trust": "verified", "env": [], "min_vram_gb": "0", "disk_gb": "20", "max_hourly": null, "work_estimate": null, "work_on": null, "spot_policy": "spot", "max_bid": "0.10", "deadline": null, "fall_back": false, "budget": "20.00", "max_rate": null, "cancel_when_exhausted": false, "checkpoint_path": "ckpt", "checkpoint_interval": "PT30S", "interval_is_fixed": true, "max_loss": null, "checkpoints_kept": 2, "progress": "", "stall_after": null, "stall_fails": false, "secrets": [], "inputs": [], "inputs_gb": "0", "outputs": [], "outputs_gb": "0", "as_root": false, "max_attempts": 3}','pending','submitted','2026-11-23T22:42:43.820550Z',0,0,0,NULL,0,0,NULL,0,'[]',NULL,NULL,0,'waiting');
CREATE TABLE leader (
	id INTEGER NOT NULL, 
	epoch BIGINT NOT NULL, 
	holder TEXT NOT NULL, 
	taken_at VARCHAR(27) NOT NULL, 
	renewed_at VARCHAR(27), 
	CONSTRAINT pk_leader PRIMARY KEY (id)
);
CREATE TABLE lease_spans (
	lease_id TEXT NOT NULL, 
	seq BIGINT NOT NULL, 
	status TEXT NOT NULL, 
	rate_nano BIGINT NOT NULL, 
	storage_rate_nano BIGINT NOT NULL, 
	started_at VARCHAR(27) NOT NULL, 
	ended_at VARCHAR(27), 
	CONSTRAINT pk_lease_spans PRIMARY KEY (lease_id, seq), 
	CONSTRAINT fk_lease_spans_lease_id_leases FOREIGN KEY(lease_id) REFERENCES leases (id) DEFERRABLE INITIALLY DEFERRED
);
INSERT INTO "lease_spans" VALUES('01M8596RTJQK1MGVJWRJ4AF8YW',0,'provisioning',0,5555556,'2026-11-23T22:42:40.398510Z','2026-11-23T22:43:09.824070Z');
INSERT INTO "lease_spans" VALUES('01M859729Y6WCWHS9HB47GV52R',0,'provisioning',0,2777778,'2026-11-23T22:42:49.712850Z','2026-11-23T22:43:24.432510Z');
INSERT INTO "lease_spans" VALUES('01M85972EZPVRX6944BWQVAJTZ',0,'provisioning',0,2777778,'2026-11-23T22:42:49.712850Z','2026-11-23T22:43:24.432510Z');
INSERT INTO "lease_spans" VALUES('01M85972VFPMX3NTTVSSV702N1',0,'provisioning',0,2777778,'2026-11-23T22:42:49.712850Z','2026-11-23T22:43:44.471610Z');
INSERT INTO "lease_spans" VALUES('01M8596RTJQK1MGVJWRJ4AF8YW',1,'provisioning',149000000,5555556,'2026-11-23T22:43:09.824070Z','2026-11-23T22:43:24.432510Z');
INSERT INTO "lease_spans" VALUES('01M8596RTJQK1MGVJWRJ4AF8YW',2,'running',149000000,5555556,'2026-11-23T22:43:24.432510Z','2026-11-23T22:46:21.307950Z');
INSERT INTO "lease_spans" VALUES('01M859729Y6WCWHS9HB47GV52R',1,'provisioning',174000000,2777778,'2026-11-23T22:43:24.432510Z','2026-11-23T22:43:44.471610Z');
INSERT INTO "lease_spans" VALUES('01M859729Y6WCWHS9HB47GV52R',2,'running',174000000,2777778,'2026-11-23T22:43:44.471610Z',NULL);
INSERT INTO "lease_spans" VALUES('01M85972EZPVRX6944BWQVAJTZ',1,'provisioning',278000000,2777778,'2026-11-23T22:43:24.432510Z','2026-11-23T22:43:44.471610Z');
INSERT INTO "lease_spans" VALUES('01M85972EZPVRX6944BWQVAJTZ',2,'running',278000000,2777778,'2026-11-23T22:43:44.471610Z','2026-11-23T22:48:49.488630Z');
INSERT INTO "lease_spans" VALUES('01M85972VFPMX3NTTVSSV702N1',1,'provisioning',280000000,2777778,'2026-11-23T22:43:44.471610Z','2026-11-23T22:44:03.493650Z');
INSERT INTO "lease_spans" VALUES('01M85972VFPMX3NTTVSSV702N1',2,'running',280000000,2777778,'2026-11-23T22:44:03.493650Z','2026-11-23T22:48:49.488630Z');
INSERT INTO "lease_spans" VALUES('01M85972EZPVRX6944BWQVAJTZ',3,'stopped',0,2777778,'2026-11-23T22:48:49.488630Z',NULL);
INSERT INTO "lease_spans" VALUES('01M85972VFPMX3NTTVSSV702N1',3,'offline',0,0,'2026-11-23T22:48:49.488630Z',NULL);
CREATE TABLE leases (
	id TEXT NOT NULL, 
	job_id TEXT, 
	slot TEXT NOT NULL, 
	state TEXT NOT NULL, 
	provider TEXT NOT NULL, 
	label TEXT NOT NULL, 
	capacity_type TEXT NOT NULL, 
	offer_id TEXT NOT NULL, 
	machine_id TEXT NOT NULL, 
	host_id TEXT NOT NULL, 
	gpu TEXT NOT NULL, 
	num_gpus BIGINT NOT NULL, 
	disk_gb TEXT NOT NULL, 
	rate_nano BIGINT NOT NULL, 
	storage_rate_nano BIGINT NOT NULL, 
	on_demand_rate_nano BIGINT, 
	reserved_nano BIGINT NOT NULL, 
	intended_at VARCHAR(27) NOT NULL, 
	not_after VARCHAR(27) NOT NULL, 
	reason TEXT NOT NULL, 
	decision_id TEXT, 
	instance_id TEXT, 
	status TEXT NOT NULL, 
	create_unknown BOOLEAN NOT NULL, 
	acquired_at VARCHAR(27), 
	running_since VARCHAR(27), 
	paused_at VARCHAR(27), 
	pause_cause TEXT, 
	bid_changed_at VARCHAR(27), 
	highest_bid_nano BIGINT, 
	rebids BIGINT NOT NULL, 
	offline_since VARCHAR(27), 
	last_seen_at VARCHAR(27), 
	absences BIGINT NOT NULL, 
	absent_at VARCHAR(27), 
	lists_since_intent BIGINT NOT NULL, 
	destroy_requested_at VARCHAR(27), 
	destroy_sent_at VARCHAR(27), 
	destroy_attempts BIGINT NOT NULL, 
	gone_at VARCHAR(27), 
	settled_at VARCHAR(27), 
	role TEXT NOT NULL, 
	stop_ordered_at VARCHAR(27), 
	run_epoch BIGINT NOT NULL, 
	permit_seq BIGINT NOT NULL, 
	permit_renewed_at VARCHAR(27), 
	stop_seq BIGINT NOT NULL, 
	agent_boot BIGINT NOT NULL, 
	agent_seq BIGINT NOT NULL, 
	agent_state TEXT NOT NULL, 
	agent_seen_at VARCHAR(27), 
	agent_saved BOOLEAN NOT NULL, 
	last_checkpoint_number BIGINT, 
	log_count BIGINT NOT NULL, 
	anchor_work_us BIGINT, 
	anchor_progress TEXT, 
	exit_code BIGINT, reconciled_at VARCHAR(27), permit_ttl_s BIGINT, upload_price_nano BIGINT DEFAULT '0' NOT NULL, download_price_nano BIGINT DEFAULT '0' NOT NULL, download_gb TEXT DEFAULT '0' NOT NULL, upload_gb TEXT DEFAULT '0' NOT NULL, agent_sent_bytes BIGINT DEFAULT '0' NOT NULL, sent_bytes JSON DEFAULT '[]' NOT NULL, preparing_since VARCHAR(27), 
	CONSTRAINT pk_leases PRIMARY KEY (id), 
	CONSTRAINT fk_leases_job_id_jobs FOREIGN KEY(job_id) REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED
);
INSERT INTO "leases" VALUES('01M8596RTJQK1MGVJWRJ4AF8YW','01M8593C71KWXTSZAG3RW618P5','main','gone','vastai','ap1.ecs8jf5k.01M8596RTJQK1MGVJWRJ4AF8YW','spot','29332120','44072','155415','RTX 3090',1,'20',149000000,5555556,234900000,222596308,'2026-11-23T22:42:40.398510Z','2026-11-26T22:42:40.398510Z','completed','01M8593C71KWXTSZAG3RW618P5-1','47848147','running',0,'2026-11-23T22:42:43.700610Z','2026-11-23T22:43:24.432510Z',NULL,NULL,NULL,NULL,0,NULL,'2026-11-23T22:46:15.767790Z',2,'2026-11-23T22:46:53.687850Z',0,'2026-11-23T22:46:15.767790Z','2026-11-23T22:46:21.307950Z',1,'2026-11-23T22:46:53.687850Z','2026-11-23T22:47:56.181150Z','leave',NULL,1,3,'2026-11-23T22:45:06.166470Z',0,1,13,'finished','2026-11-23T22:46:15.767790Z',0,0,4,NULL,NULL,0,'2026-11-23T22:47:56.181150Z',900,3900000,2000000,'10','5',530683,'[["2026-11-23", 530683]]',NULL);
INSERT INTO "leases" VALUES('01M859729Y6WCWHS9HB47GV52R','01M85967V3AYDHFRBDTFNF9C48','main','active','runpod','ap1.ecs8jf5k.01M859729Y6WCWHS9HB47GV52R','spot','NVIDIA RTX A4000/COMMUNITY/1','NVIDIA RTX A4000/COMMUNITY/-','2be13ee6e663','RTX A4000',1,'20',174000000,2777778,240000000,101698154,'2026-11-23T22:42:49.712850Z','2026-11-26T22:42:49.712850Z','cheapest','01M85967V3AYDHFRBDTFNF9C48-1','h2vguwbcd4nmgt','running',0,'2026-11-23T22:42:55.040970Z','2026-11-23T22:43:44.471610Z',NULL,NULL,NULL,NULL,0,NULL,'2026-11-23T22:49:08.982690Z',0,NULL,0,NULL,NULL,0,NULL,NULL,'run',NULL,1,6,'2026-11-23T22:48:37.406250Z',0,1,26,'running','2026-11-23T22:48:58.696290Z',0,4,2,NULL,NULL,NULL,NULL,900,0,0,'10','5',2641366,'[["2026-11-23", 2641366]]',NULL);
INSERT INTO "leases" VALUES('01M85972EZPVRX6944BWQVAJTZ','01M8596G8BN4MJQFNW9AQ6BCMW','main','paused','vastai','ap1.ecs8jf5k.01M85972EZPVRX6944BWQVAJTZ','spot','29332108','43668','155399','RTX 4090',1,'20',278000000,2777778,439400000,181498155,'2026-11-23T22:42:49.712850Z','2026-11-26T22:42:49.712850Z','cheapest','01M8596G8BN4MJQFNW9AQ6BCMW-1','47848148','stopped',0,'2026-11-23T22:42:55.452030Z',NULL,'2026-11-23T22:48:49.488630Z','outbid','2026-11-23T22:48:49.488630Z',306000000,1,NULL,'2026-11-23T22:49:08.982690Z',0,NULL,0,NULL,NULL,0,NULL,NULL,'run',NULL,1,6,'2026-11-23T22:48:37.406250Z',0,1,25,'','2026-11-23T22:48:49.488630Z',0,4,2,NULL,NULL,NULL,NULL,900,3900000,2000000,'10','5',2641032,'[["2026-11-23", 2641032]]',NULL);
INSERT INTO "leases" VALUES('01M85972VFPMX3NTTVSSV702N1','01M8596STBNPNB9B2KD903W9WW','main','active','vastai','ap1.ecs8jf5k.01M85972VFPMX3NTTVSSV702N1','spot','29332113','43971','155411','RTX 4090',1,'20',280000000,2777778,423600000,181898154,'2026-11-23T22:42:49.712850Z','2026-11-26T22:42:49.712850Z','cheapest','01M8596STBNPNB9B2KD903W9WW-1','47848149','offline',0,'2026-11-23T22:43:02.055630Z',NULL,NULL,NULL,NULL,NULL,0,'2026-11-23T22:48:49.488630Z','2026-11-23T22:49:08.982690Z',0,NULL,0,NULL,NULL,0,NULL,NULL,'run',NULL,1,6,'2026-11-23T22:48:37.406250Z',0,1,23,'','2026-11-23T22:48:49.488630Z',0,4,2,NULL,NULL,NULL,NULL,900,3900000,2000000,'10','5',2640407,'[["2026-11-23", 2640407]]',NULL);
CREATE TABLE ledger_entries (
	id TEXT NOT NULL, 
	type TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	lease_id TEXT NOT NULL, 
	job_id TEXT, 
	provider TEXT NOT NULL, 
	day DATE NOT NULL, 
	amount_nano BIGINT NOT NULL, 
	posted_at VARCHAR(27) NOT NULL, 
	corrects TEXT, line_id TEXT, 
	CONSTRAINT pk_ledger_entries PRIMARY KEY (id), 
	CONSTRAINT fk_ledger_entries_corrects_ledger_entries FOREIGN KEY(corrects) REFERENCES ledger_entries (id) DEFERRABLE INITIALLY DEFERRED, 
	CONSTRAINT fk_ledger_entries_job_id_jobs FOREIGN KEY(job_id) REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED, 
	CONSTRAINT fk_ledger_entries_lease_id_leases FOREIGN KEY(lease_id) REFERENCES leases (id) DEFERRABLE INITIALLY DEFERRED
);
INSERT INTO "ledger_entries" VALUES('01M8596RTJQK1MGVJWRJ4AF8YW:reserve:1','reserve','compute','01M8596RTJQK1MGVJWRJ4AF8YW','01M8593C71KWXTSZAG3RW618P5','vastai','2026-11-23',222596308,'2026-11-23T22:42:40.398510Z',NULL,NULL);
INSERT INTO "ledger_entries" VALUES('01M8596RTJQK1MGVJWRJ4AF8YW:reserve:2','void','compute','01M8596RTJQK1MGVJWRJ4AF8YW','01M8593C71KWXTSZAG3RW618P5','vastai','2026-11-23',-32879630,'2026-11-23T22:42:44.405190Z','01M8596RTJQK1MGVJWRJ4AF8YW:reserve:1',NULL);
INSERT INTO "ledger_entries" VALUES('01M8596RTJQK1MGVJWRJ4AF8YW:accrue:bandwidth:2026-11-23:20000000','accrue','bandwidth','01M8596RTJQK1MGVJWRJ4AF8YW','01M8593C71KWXTSZAG3RW618P5','vastai','2026-11-23',20000000,'2026-11-23T22:42:49.712850Z',NULL,NULL);
INSERT INTO "ledger_entries" VALUES('01M85972VFPMX3NTTVSSV702N1:reserve:1','reserve','compute','01M85972VFPMX3NTTVSSV702N1','01M8596STBNPNB9B2KD903W9WW','vastai','2026-11-23',181898154,'2026-11-23T22:42:49.712850Z',NULL,NULL);
INSERT INTO "ledger_entries" VALUES('01M85972EZPVRX6944BWQVAJTZ:reserve:1','reserve','compute','01M85972EZPVRX6944BWQVAJTZ','01M8596G8BN4MJQFNW9AQ6BCMW','vastai','2026-11-23',181498155,'2026-11-23T22:42:49.712850Z',NULL,NULL);
INSERT INTO "ledger_entries" VALUES('01M859729Y6WCWHS9HB47GV52R:reserve:1','reserve','compute','01M859729Y6WCWHS9HB47GV52R','01M85967V3AYDHFRBDTFNF9C48','runpod','2026-11-23',101698154,'2026-11-23T22:42:49.712850Z',NULL,NULL);
INSERT INTO "ledger_entries" VALUES('01M859729Y6WCWHS9HB47GV52R:reserve:2','void','compute','01M859729Y6WCWHS9HB47GV52R','01M85967V3AYDHFRBDTFNF9C48','runpod','2026-11-23',-14731482,'2026-11-23T22:42:55.888890Z','01M859729Y6WCWHS9HB47GV52R:reserve:1',NULL);
INSERT INTO "ledger_entries" VALUES('01M85972EZPVRX6944BWQVAJTZ:reserve:2','void','compute','01M85972EZPVRX6944BWQVAJTZ','01M8596G8BN4MJQFNW9AQ6BCMW','vastai','2026-11-23',-43398149,'2026-11-23T22:42:56.570550Z','01M85972EZPVRX6944BWQVAJTZ:reserve:1',NULL);
INSERT INTO "ledger_entries" VALUES('01M85972VFPMX3NTTVSSV702N1:reserve:2','void','compute','01M85972VFPMX3NTTVSSV702N1','01M8596STBNPNB9B2KD903W9WW','vastai','2026-11-23',-43564815,'2026-11-23T22:43:02.428170Z','01M85972VFPMX3NTTVSSV702N1:reserve:1',NULL);
INSERT INTO "ledger_entries" VALUES('01M85972VFPMX3NTTVSSV702N1:accrue:bandwidth:2026-11-23:20000000','accrue','bandwidth','01M85972VFPMX3NTTVSSV702N1','01M8596STBNPNB9B2KD903W9WW','vastai','2026-11-23',20000000,'2026-11-23T22:43:04.988010Z',NULL,NULL);
INSERT INTO "ledger_entries" VALUES('01M85972EZPVRX6944BWQVAJTZ:accrue:bandwidth:2026-11-23:20000000','accrue','bandwidth','01M85972EZPVRX6944BWQVAJTZ','01M8596G8BN4MJQFNW9AQ6BCMW','vastai','2026-11-23',20000000,'2026-11-23T22:43:04.988010Z',NULL,NULL);
INSERT INTO "ledger_entries" VALUES('01M85972EZPVRX6944BWQVAJTZ:accrue:compute:2026-11-23:10418731','accrue','compute','01M85972EZPVRX6944BWQVAJTZ','01M8596G8BN4MJQFNW9AQ6BCMW','vastai','2026-11-23',10418731,'2026-11-23T22:45:39.351330Z',NULL,NULL);
INSERT INTO "ledger_entries" VALUES('01M85972VFPMX3NTTVSSV702N1:accrue:compute:2026-11-23:10166604','accrue','compute','01M85972VFPMX3NTTVSSV702N1','01M8596STBNPNB9B2KD903W9WW','vastai','2026-11-23',10166604,'2026-11-23T22:45:55.185090Z',NULL,NULL);
INSERT INTO "ledger_entries" VALUES('01M859729Y6WCWHS9HB47GV52R:accrue:compute:2026-11-23:10218614','accrue','compute','01M859729Y6WCWHS9HB47GV52R','01M85967V3AYDHFRBDTFNF9C48','runpod','2026-11-23',10218614,'2026-11-23T22:46:55.852110Z',NULL,NULL);
INSERT INTO "ledger_entries" VALUES('01M8596RTJQK1MGVJWRJ4AF8YW:accrue:bandwidth:2026-11-23:59002070','accrue','bandwidth','01M8596RTJQK1MGVJWRJ4AF8YW','01M8593C71KWXTSZAG3RW618P5','vastai','2026-11-23',39002070,'2026-11-23T22:46:55.852110Z',NULL,NULL);
INSERT INTO "ledger_entries" VALUES('01M8596RTJQK1MGVJWRJ4AF8YW:accrue:compute:2026-11-23:7925305','accrue','compute','01M8596RTJQK1MGVJWRJ4AF8YW','01M8593C71KWXTSZAG3RW618P5','vastai','2026-11-23',7925305,'2026-11-23T22:46:55.852110Z',NULL,NULL);
INSERT INTO "ledger_entries" VALUES('01M8596RTJQK1MGVJWRJ4AF8YW:accrue:storage_running:2026-11-23:340910','accrue','storage_running','01M8596RTJQK1MGVJWRJ4AF8YW','01M8593C71KWXTSZAG3RW618P5','vastai','2026-11-23',340910,'2026-11-23T22:46:55.852110Z',NULL,NULL);
INSERT INTO "ledger_entries" VALUES('01M8596RTJQK1MGVJWRJ4AF8YW:reserve:3','void','compute','01M8596RTJQK1MGVJWRJ4AF8YW','01M8593C71KWXTSZAG3RW618P5','vastai','2026-11-23',-189716678,'2026-11-23T22:46:55.852110Z','01M8596RTJQK1MGVJWRJ4AF8YW:reserve:2',NULL);
INSERT INTO "ledger_entries" VALUES('vastai:47848147:storage_running:2026-11-23:r1:340910','settle','storage_running','01M8596RTJQK1MGVJWRJ4AF8YW','01M8593C71KWXTSZAG3RW618P5','vastai','2026-11-23',-340910,'2026-11-23T22:47:56.181150Z','01M8596RTJQK1MGVJWRJ4AF8YW:accrue:storage_running:2026-11-23:340910','vastai:47848147:storage_running:2026-11-23:r1');
INSERT INTO "ledger_entries" VALUES('vastai:47848147:compute:2026-11-23:r1:7925305','settle','compute','01M8596RTJQK1MGVJWRJ4AF8YW','01M8593C71KWXTSZAG3RW618P5','vastai','2026-11-23',-925305,'2026-11-23T22:47:56.181150Z','01M8596RTJQK1MGVJWRJ4AF8YW:accrue:compute:2026-11-23:7925305','vastai:47848147:compute:2026-11-23:r1');
INSERT INTO "ledger_entries" VALUES('vastai:47848147:bandwidth:2026-11-23:r1:59002070','settle','bandwidth','01M8596RTJQK1MGVJWRJ4AF8YW','01M8593C71KWXTSZAG3RW618P5','vastai','2026-11-23',-59002070,'2026-11-23T22:47:56.181150Z','01M8596RTJQK1MGVJWRJ4AF8YW:accrue:bandwidth:2026-11-23:59002070','vastai:47848147:bandwidth:2026-11-23:r1');
INSERT INTO "ledger_entries" VALUES('01M85972EZPVRX6944BWQVAJTZ:accrue:compute:2026-11-23:21326117','accrue','compute','01M85972EZPVRX6944BWQVAJTZ','01M8596G8BN4MJQFNW9AQ6BCMW','vastai','2026-11-23',10907386,'2026-11-23T22:48:00.598050Z',NULL,NULL);
INSERT INTO "ledger_entries" VALUES('01M85972VFPMX3NTTVSSV702N1:accrue:compute:2026-11-23:21045346','accrue','compute','01M85972VFPMX3NTTVSSV702N1','01M8596STBNPNB9B2KD903W9WW','vastai','2026-11-23',10878742,'2026-11-23T22:48:15.054630Z',NULL,NULL);
INSERT INTO "ledger_entries" VALUES('01M85972EZPVRX6944BWQVAJTZ:reserve:3','reserve','compute','01M85972EZPVRX6944BWQVAJTZ','01M8596G8BN4MJQFNW9AQ6BCMW','vastai','2026-11-23',3266666,'2026-11-23T22:48:49.488630Z','01M85972EZPVRX6944BWQVAJTZ:reserve:2',NULL);
CREATE TABLE notes (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_notes PRIMARY KEY ("key")
);
INSERT INTO "notes" VALUES('reconciled_on','2026-11-23');
CREATE TABLE price_observations (
	provider TEXT NOT NULL, 
	machine_id TEXT NOT NULL, 
	gpu TEXT NOT NULL, 
	num_gpus BIGINT NOT NULL, 
	floor_nano BIGINT, 
	on_demand_rate_nano BIGINT, 
	observed_at VARCHAR(27) NOT NULL, host_id TEXT, storage_price_nano BIGINT, upload_price_nano BIGINT, download_price_nano BIGINT, reliability TEXT, verified BOOLEAN, ends_at VARCHAR(27), floor_low_nano BIGINT, floor_high_nano BIGINT, samples BIGINT DEFAULT '1' NOT NULL, 
	CONSTRAINT pk_price_observations PRIMARY KEY (provider, machine_id, num_gpus, observed_at)
)
 WITHOUT ROWID

;
INSERT INTO "price_observations" VALUES('runpod','NVIDIA GeForce RTX 3090/COMMUNITY/-','RTX 3090',1,179000000,300000000,'2026-11-23T22:42:40.398510Z','',100000000,0,0,'1',1,NULL,NULL,NULL,1);
INSERT INTO "price_observations" VALUES('runpod','NVIDIA GeForce RTX 4090/COMMUNITY/-','RTX 4090',1,450000000,440000000,'2026-11-23T22:47:47.372790Z','',100000000,0,0,'1',1,NULL,NULL,NULL,1);
INSERT INTO "price_observations" VALUES('runpod','NVIDIA GeForce RTX 4090/SECURE/-','RTX 4090',1,450000000,690000000,'2026-11-23T22:47:47.372790Z','',100000000,0,0,'1',1,NULL,NULL,NULL,1);
INSERT INTO "price_observations" VALUES('runpod','NVIDIA H100 80GB HBM3/SECURE/-','H100 SXM',1,1515000000,2690000000,'2026-11-23T22:47:47.372790Z','',100000000,0,0,'1',1,NULL,NULL,NULL,1);
INSERT INTO "price_observations" VALUES('runpod','NVIDIA RTX A4000/COMMUNITY/-','RTX A4000',1,151000000,240000000,'2026-11-23T22:47:47.372790Z','',100000000,0,0,'1',1,NULL,NULL,NULL,1);
INSERT INTO "price_observations" VALUES('runpod','NVIDIA RTX A4000/SECURE/-','RTX A4000',1,171000000,350000000,'2026-11-23T22:47:47.372790Z','',100000000,0,0,'1',1,NULL,NULL,NULL,1);
INSERT INTO "price_observations" VALUES('vastai','43567','RTX 4090',1,245500000,395400000,'2026-11-23T22:47:47.372790Z','155395',150000000,3900000,2000000,'0.9892',1,'2027-02-24T07:38:40.253010Z',NULL,NULL,1);
INSERT INTO "price_observations" VALUES('vastai','43769','RTX 4090',1,244700000,434900000,'2026-11-23T22:47:47.372790Z','155403',100000000,3900000,2000000,'0.9927',1,'2027-01-23T16:38:40.253010Z',NULL,NULL,1);
INSERT INTO "price_observations" VALUES('vastai','43870','RTX 4090',1,259400000,449500000,'2026-11-23T22:47:47.372790Z','155407',100000000,3900000,2000000,'0.9949',1,'2027-03-06T05:38:40.253010Z',NULL,NULL,1);
INSERT INTO "price_observations" VALUES('vastai','44072','RTX 3090',1,129300000,234900000,'2026-11-23T22:42:40.398510Z','155415',200000000,3900000,2000000,'0.9865',1,'2027-03-06T15:38:40.253010Z',NULL,NULL,1);
INSERT INTO "price_observations" VALUES('vastai','44173','RTX 3090',1,136700000,235400000,'2026-11-23T22:42:40.398510Z','155419',200000000,3900000,2000000,'0.999',1,'2027-03-06T12:38:40.253010Z',NULL,NULL,1);
INSERT INTO "price_observations" VALUES('vastai','44577','H100 SXM',1,1379100000,2385000000,'2026-11-23T22:47:47.372790Z','155435',100000000,3900000,2000000,'0.9905',1,'2027-03-10T16:38:40.253010Z',NULL,NULL,1);
INSERT INTO "price_observations" VALUES('vastai','44678','H100 SXM',1,1326000000,2249300000,'2026-11-23T22:47:47.372790Z','155439',150000000,3900000,2000000,'0.9929',1,'2027-03-15T21:38:40.253010Z',NULL,NULL,1);
CREATE TABLE spend_daily (
	day DATE NOT NULL, 
	lease_id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	amount_nano BIGINT NOT NULL, 
	CONSTRAINT pk_spend_daily PRIMARY KEY (day, lease_id, kind), 
	CONSTRAINT fk_spend_daily_lease_id_leases FOREIGN KEY(lease_id) REFERENCES leases (id) DEFERRABLE INITIALLY DEFERRED
)
 WITHOUT ROWID

;
INSERT INTO "spend_daily" VALUES('2026-11-23','01M8596RTJQK1MGVJWRJ4AF8YW','bandwidth',0);
INSERT INTO "spend_daily" VALUES('2026-11-23','01M8596RTJQK1MGVJWRJ4AF8YW','compute',7000000);
INSERT INTO "spend_daily" VALUES('2026-11-23','01M8596RTJQK1MGVJWRJ4AF8YW','storage_running',0);
INSERT INTO "spend_daily" VALUES('2026-11-23','01M859729Y6WCWHS9HB47GV52R','compute',10218614);
INSERT INTO "spend_daily" VALUES('2026-11-23','01M85972EZPVRX6944BWQVAJTZ','bandwidth',20000000);
INSERT INTO "spend_daily" VALUES('2026-11-23','01M85972EZPVRX6944BWQVAJTZ','compute',21326117);
INSERT INTO "spend_daily" VALUES('2026-11-23','01M85972VFPMX3NTTVSSV702N1','bandwidth',20000000);
INSERT INTO "spend_daily" VALUES('2026-11-23','01M85972VFPMX3NTTVSSV702N1','compute',21045346);
CREATE INDEX ix_events_job_id ON events (job_id);
CREATE INDEX ix_jobs_name ON jobs (name);
CREATE INDEX ix_jobs_status ON jobs (status);
CREATE INDEX ix_jobs_submitted_at ON jobs (submitted_at);
CREATE INDEX ix_decisions_job_id ON decisions (job_id);
CREATE UNIQUE INDEX uq_decisions_id ON decisions (id);
CREATE INDEX ix_leases_intended_at ON leases (intended_at);
CREATE INDEX ix_leases_job_id ON leases (job_id);
CREATE INDEX ix_leases_label ON leases (label);
CREATE INDEX ix_leases_state ON leases (state);
CREATE UNIQUE INDEX uq_leases_wanted_slot ON leases (job_id, slot) WHERE state IN ('active', 'intent', 'paused') AND job_id IS NOT NULL;
CREATE INDEX ix_bids_lease_id ON bids (lease_id);
CREATE INDEX ix_checkpoints_job_id ON checkpoints (job_id);
CREATE INDEX ix_ledger_entries_day_type_amount_nano ON ledger_entries (day, type, amount_nano);
CREATE INDEX ix_ledger_entries_job_id_type_amount_nano ON ledger_entries (job_id, type, amount_nano);
CREATE INDEX ix_ledger_entries_lease_id_type_kind_day_amount_nano ON ledger_entries (lease_id, type, kind, day, amount_nano);
CREATE INDEX ix_invoice_lines_lease_id ON invoice_lines (lease_id);
CREATE INDEX ix_invoice_lines_day ON invoice_lines (day);
CREATE INDEX ix_price_observations_gpu_observed_at ON price_observations (gpu, observed_at);
CREATE INDEX ix_price_observations_observed_at ON price_observations (observed_at);
CREATE INDEX ix_spend_daily_lease_id ON spend_daily (lease_id);
CREATE VIEW spend_by_month AS 
        SELECT substr(CAST(d.day AS VARCHAR), 1, 7) AS month, l.provider, round(sum(CASE WHEN d.kind IN ('compute') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS compute_usd, round(sum(CASE WHEN d.kind IN ('storage_running', 'storage_stopped') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS storage_usd, round(sum(CASE WHEN d.kind IN ('bandwidth') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS bandwidth_usd, round(sum(CASE WHEN d.kind IN ('fee', 'credit') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS fees_usd, round(sum(d.amount_nano) / 1000000000.0, 9) AS total_usd
        FROM spend_daily AS d JOIN leases AS l ON l.id = d.lease_id
        GROUP BY substr(CAST(d.day AS VARCHAR), 1, 7), l.provider
        ORDER BY substr(CAST(d.day AS VARCHAR), 1, 7), l.provider;
CREATE VIEW spend_by_day AS 
        SELECT d.day, l.provider, round(sum(CASE WHEN d.kind IN ('compute') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS compute_usd, round(sum(CASE WHEN d.kind IN ('storage_running', 'storage_stopped') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS storage_usd, round(sum(CASE WHEN d.kind IN ('bandwidth') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS bandwidth_usd, round(sum(CASE WHEN d.kind IN ('fee', 'credit') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS fees_usd, round(sum(d.amount_nano) / 1000000000.0, 9) AS total_usd
        FROM spend_daily AS d JOIN leases AS l ON l.id = d.lease_id
        GROUP BY d.day, l.provider
        ORDER BY d.day, l.provider;
CREATE VIEW spend_by_job AS 
        SELECT l.job_id, j.name AS job, j.status, count(DISTINCT l.id) AS leases, round(sum(CASE WHEN d.kind IN ('compute') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS compute_usd, round(sum(CASE WHEN d.kind IN ('storage_running', 'storage_stopped') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS storage_usd, round(sum(CASE WHEN d.kind IN ('bandwidth') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS bandwidth_usd, round(sum(CASE WHEN d.kind IN ('fee', 'credit') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS fees_usd, round(sum(d.amount_nano) / 1000000000.0, 9) AS total_usd
        FROM spend_daily AS d JOIN leases AS l ON l.id = d.lease_id LEFT JOIN jobs AS j ON j.id = l.job_id
        GROUP BY l.job_id, j.name, j.status, j.submitted_at
        ORDER BY j.submitted_at, l.job_id;
CREATE VIEW spend_by_gpu AS 
        SELECT substr(CAST(d.day AS VARCHAR), 1, 7) AS month, l.gpu, l.capacity_type, count(DISTINCT l.id) AS leases, round(sum(CASE WHEN d.kind IN ('compute') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS compute_usd, round(sum(CASE WHEN d.kind IN ('storage_running', 'storage_stopped') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS storage_usd, round(sum(CASE WHEN d.kind IN ('bandwidth') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS bandwidth_usd, round(sum(CASE WHEN d.kind IN ('fee', 'credit') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS fees_usd, round(sum(d.amount_nano) / 1000000000.0, 9) AS total_usd
        FROM spend_daily AS d JOIN leases AS l ON l.id = d.lease_id
        GROUP BY substr(CAST(d.day AS VARCHAR), 1, 7), l.gpu, l.capacity_type
        ORDER BY substr(CAST(d.day AS VARCHAR), 1, 7), l.gpu, l.capacity_type;
CREATE VIEW spend_by_instance AS 
        SELECT l.provider, l.instance_id, l.id AS lease_id, l.job_id, l.gpu, l.capacity_type,
            min(d.day) AS first_day, max(d.day) AS last_day, round(sum(CASE WHEN d.kind IN ('compute') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS compute_usd, round(sum(CASE WHEN d.kind IN ('storage_running', 'storage_stopped') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS storage_usd, round(sum(CASE WHEN d.kind IN ('bandwidth') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS bandwidth_usd, round(sum(CASE WHEN d.kind IN ('fee', 'credit') THEN d.amount_nano ELSE 0 END) / 1000000000.0, 9) AS fees_usd, round(sum(d.amount_nano) / 1000000000.0, 9) AS total_usd
        FROM spend_daily AS d JOIN leases AS l ON l.id = d.lease_id
        GROUP BY l.provider, l.instance_id, l.id, l.job_id, l.gpu, l.capacity_type, l.intended_at
        ORDER BY l.intended_at, l.id;
CREATE VIEW reconciliation AS 
        SELECT f.month, l.provider, l.instance_id, l.id AS lease_id,
            round(sum(f.estimate_nano) / 1000000000.0, 9) AS estimate_usd, round(sum(f.posted_nano) / 1000000000.0, 9) AS posted_usd,
            round(sum(f.invoiced_nano) / 1000000000.0, 9) AS invoiced_usd
        FROM (
            SELECT substr(CAST(e.day AS VARCHAR), 1, 7) AS month, e.lease_id, e.amount_nano AS posted_nano,
                CASE WHEN e.type = 'accrue' THEN e.amount_nano ELSE 0 END AS estimate_nano,
                NULL AS invoiced_nano
            FROM ledger_entries AS e WHERE e.type IN ('accrue', 'settle', 'adjust')
            UNION ALL
            SELECT substr(CAST(i.day AS VARCHAR), 1, 7), i.lease_id, 0, 0, i.amount_nano
            FROM invoice_lines AS i
            WHERE i.revision = (
                SELECT max(n.revision) FROM invoice_lines AS n
                WHERE n.lease_id = i.lease_id AND n.kind = i.kind AND n.day = i.day
            )
        ) AS f JOIN leases AS l ON l.id = f.lease_id
        GROUP BY f.month, l.provider, l.instance_id, l.id, l.intended_at
        ORDER BY f.month, l.intended_at, l.id;
CREATE TRIGGER ledger_entries_refuse_update BEFORE UPDATE ON ledger_entries BEGIN SELECT RAISE(ABORT, 'ledger entries are append-only: post a correction instead'); END;
CREATE TRIGGER ledger_entries_refuse_delete BEFORE DELETE ON ledger_entries BEGIN SELECT RAISE(ABORT, 'ledger entries are append-only: post a correction instead'); END;
CREATE TRIGGER ledger_entries_keep_first BEFORE INSERT ON ledger_entries WHEN EXISTS (SELECT 1 FROM ledger_entries WHERE id = NEW.id) BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER invoice_lines_refuse_update BEFORE UPDATE ON invoice_lines BEGIN SELECT RAISE(ABORT, 'lines of an invoice are append-only: a new figure is a new line'); END;
CREATE TRIGGER invoice_lines_refuse_delete BEFORE DELETE ON invoice_lines BEGIN SELECT RAISE(ABORT, 'lines of an invoice are append-only: a new figure is a new line'); END;
CREATE TRIGGER invoice_lines_keep_first BEFORE INSERT ON invoice_lines WHEN EXISTS (SELECT 1 FROM invoice_lines WHERE id = NEW.id) BEGIN SELECT RAISE(IGNORE); END;
COMMIT;
